// NIC and locality facts from the kernel's sysfs.
#pragma once

#include <filesystem>

#include "topology/node.hpp"

namespace railyard::topology {

// Fills what is unknown: RDMA devices (port state, rate, link layer, PCI address, NUMA node), and the NUMA node and
// near CPUs of GPUs with a PCI address. Devices that `node` lacks are added, without paths. `root` is /sys, or a copy
// of its shape in tests; a missing file leaves a value unknown.
void add_sysfs_facts(Node& node, const std::filesystem::path& root = "/sys");

}  // namespace railyard::topology
