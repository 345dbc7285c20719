// What NVIDIA's management library knows, loaded at run time so that one binary runs where there is none.
#pragma once

#include "topology/node.hpp"

namespace railyard::topology {

// The GPUs NVML lists, with names, UUIDs, NVLinks, PCIe paths between them, MIG devices (as partitions) and the NVLink
// rack they belong to. nullopt where the library, the driver or a GPU is missing. Takes about 0.1 s.
[[nodiscard]] std::optional<Node> read_nvml();

}  // namespace railyard::topology
