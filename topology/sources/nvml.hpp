// What NVIDIA's management library knows, loaded at run time so that one binary runs where there is none.
#pragma once

#include "topology/node.hpp"

namespace railyard::topology {

// The GPUs NVML lists, with names, UUIDs, NVLinks, PCIe paths between them, MIG devices (as partitions) and the NVLink
// rack they belong to. nullopt where the library, the driver or a GPU is missing. Takes about 0.1 s.
[[nodiscard]] std::optional<Node> read_nvml();

// Of each GPU or MIG device that this process may open only index, name, PCI address, UUID and partition, in PCI order:
// what every rank asks. Empty where the library, the driver or a GPU is missing.
[[nodiscard]] std::vector<Gpu> read_nvml_identities();

// Whether the library and the driver work together.
struct NvmlStatus {
  std::string problem;  // "libnvidia-ml.so.1 is missing", "driver and library mismatch", ...; empty: works
  std::string driver;   // "580.159"
  int cuda = 0;         // newest CUDA that the driver runs, 13000 is 13.0
};
[[nodiscard]] NvmlStatus nvml_status();

}  // namespace railyard::topology
