-- NVIDIA GB200 NVL72 racks: 18 trays of four GPUs, all 72 of a rack joined by NVLink. A tray has four 400 Gbit/s NICs.
-- Slurm's block topology (base block of 18 nodes) tells which nodes share a rack. Copy it to /etc/railyard/site.lua and
-- set what is the cluster's own: match, slurm, paths.

return site {
  name = "gb200-nvl72",
  node = { gpus = 4, gpu = "GB200-186GB", nvlink_domain = 72 },
  fabric = { kind = "ib", rails = 4, nic_gbps = 400, topology = "slurm" },
  slurm = { mpi = "pmix" },
}
