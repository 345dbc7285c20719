-- NVIDIA DGX A100 nodes with 80 GB GPUs: eight GPUs joined by NVSwitch, eight 200 Gbit/s InfiniBand rails. Copy it to
-- /etc/railyard/site.lua and set what is the cluster's own: match, slurm, paths, and the storage NICs in nic_exclude.

return site {
  name = "dgx-a100",
  node = { gpus = 8, gpu = "A100-SXM4-80GB", memory = "2 TiB", nvlink_domain = 8 },
  fabric = { kind = "ib", rails = 8, nic_gbps = 200, topology = "slurm" },
  slurm = { mpi = "pmix" },

  on_env = function(rank)
    if rank.nic then return { UCX_NET_DEVICES = rank.nic .. ":1" } end
  end,
}
