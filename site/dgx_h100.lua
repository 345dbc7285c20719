-- NVIDIA DGX H100 nodes, eight GPUs joined by NVSwitch and eight 400 Gbit/s InfiniBand rails. To use it, copy it to
-- /etc/railyard/site.lua and set what is the cluster's own: match, slurm, paths. The NICs of storage and management
-- (two ConnectX-7 beside the eight) differ from system to system: `railyard topo` shows them; name them in nic_exclude.

return site {
  name = "dgx-h100",
  node = { gpus = 8, gpu = "H100-SXM5-80GB", memory = "2 TiB", nvlink_domain = 8 },
  fabric = { kind = "ib", rails = 8, nic_gbps = 400, topology = "slurm" },
  slurm = { mpi = "pmix" },

  -- UCX takes one NIC per rank, the GPU's own; NCCL gets the node's rails from the program itself.
  on_env = function(rank)
    if rank.nic then return { UCX_NET_DEVICES = rank.nic .. ":1" } end
  end,
}
