-- Nodes of PCIe GPUs without NVLink, joined by Ethernet: a place to start from. Copy it to /etc/railyard/site.lua and
-- set what is the cluster's own: the kind of GPU, the network, match, slurm, paths.

return site {
  name = "generic-pcie",
  node = { nvlink_domain = 1 },
  fabric = { kind = "tcp" },
  slurm = { mpi = "pmix" },
}
