// Where a device hangs in the PCI tree of an XML file, the path between two devices, and what a PCI class says.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "topology/node.hpp"

namespace railyard::topology {

struct PciPlace {
  std::vector<int> bridges;        // identities of the PCI bridges above, outermost first, host bridge left out
  std::optional<int> host_bridge;  // identity of the root complex
  std::optional<int> numa;
};

// hwloc lists both ports of a switch as bridges; NCCL's files have one element per switch.
enum class BridgeDetail { kPorts, kSwitches };

// PIX: one switch; PXB: several; PHB: one root complex; NODE: one NUMA node; SYS: two. nullopt when the NUMA node of
// either is unknown and nothing nearer is shared. `hops` is set to the bridges below the nearest shared one.
[[nodiscard]] std::optional<PathClass> path_between(const PciPlace& a, const PciPlace& b, BridgeDetail detail,
                                                    int& hops);

// More GPUs and NICs than this in one node are refused.
inline constexpr std::size_t kMostDevices = 1024;

// Fills node.paths; UsageError, naming node.source, beyond kMostDevices.
// `gpus` and `nics` are in the node's order.
void fill_paths(Node& node, const std::vector<PciPlace>& gpus, const std::vector<PciPlace>& nics, BridgeDetail detail);

// A compute GPU by PCI class (16 bits) and vendor: never a server's management display (ASPEED, Matrox, ...).
// `has_compute_device`: a driver for computing sits on it, which tells an integrated display adapter from a card.
[[nodiscard]] bool is_gpu(unsigned pci_class, unsigned vendor, bool has_compute_device);

// The link layer of a network device by PCI class and ids; nullopt when they do not tell.
[[nodiscard]] std::optional<std::string_view> link_layer_of(unsigned pci_class, unsigned vendor, unsigned device);

// NVLink rate per link and direction in MB/s by PCI device id of an NVIDIA GPU, for turning bandwidth into links.
[[nodiscard]] std::optional<int> nvlink_rate(unsigned device_id);

}  // namespace railyard::topology
