// Network facts of this machine: interfaces, RDMA ports and their addresses, what the host name resolves to.
#pragma once

#include <filesystem>

#include "launch/doctor/facts.hpp"

namespace railyard::launch {

void gather_network(DoctorFacts& facts);

// RDMA ports below `root`/class/infiniband, with their address tables.
[[nodiscard]] std::vector<RdmaPort> read_rdma_ports(const std::filesystem::path& root = "/sys");

}  // namespace railyard::launch
