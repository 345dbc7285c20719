// Paths in a PCI tree and the meaning of PCI ids.
#include "topology/sources/pci_tree.hpp"

#include <algorithm>

#include "runtime/base/error.hpp"

namespace railyard::topology {
namespace {

constexpr unsigned kAmd = 0x1002, kNvidia = 0x10de, kIntel = 0x8086, kHabana = 0x1da3;
constexpr unsigned kAmazon = 0x1d0f, kCray = 0x17db;

}  // namespace

std::optional<PathClass> path_between(const PciPlace& a, const PciPlace& b, BridgeDetail detail, int& hops) {
  std::size_t shared = 0;
  while (shared < std::min(a.bridges.size(), b.bridges.size()) && a.bridges[shared] == b.bridges[shared]) ++shared;
  hops = 0;
  if (shared > 0) {
    hops = static_cast<int>(a.bridges.size() + b.bridges.size() - 2 * shared);
    const auto between = std::max(a.bridges.size(), b.bridges.size()) - shared;
    return between <= (detail == BridgeDetail::kPorts ? 1U : 0U) ? PathClass::kPix : PathClass::kPxb;
  }
  if (a.host_bridge && a.host_bridge == b.host_bridge) return PathClass::kPhb;
  if (a.numa && b.numa) return *a.numa == *b.numa ? PathClass::kNode : PathClass::kSys;
  return std::nullopt;
}

void fill_paths(Node& node, const std::vector<PciPlace>& gpus, const std::vector<PciPlace>& nics, BridgeDetail detail) {
  std::vector<PciPlace> all(gpus);
  all.insert(all.end(), nics.begin(), nics.end());
  if (all.size() > kMostDevices) throw UsageError("{}: {} GPUs and NICs are beyond any node", node.source, all.size());
  node.paths = PathTable(static_cast<int>(all.size()));
  for (std::size_t a = 0; a < all.size(); ++a)
    for (std::size_t b = a + 1; b < all.size(); ++b) {
      int hops = 0;
      const auto path = path_between(all[a], all[b], detail, hops);
      node.paths.set(static_cast<int>(a), static_cast<int>(b), path, hops);
    }
}

bool is_gpu(unsigned pci_class, unsigned vendor, bool has_compute_device) {
  const bool accelerator = pci_class == 0x1200, display = pci_class >> 8 == 0x03;
  if (!accelerator && !display) return false;
  if (vendor == kNvidia) return true;
  if (vendor == kHabana) return accelerator;
  if (vendor == kAmd || vendor == kIntel) return pci_class != 0x0300 || has_compute_device;
  return false;
}

std::optional<std::string_view> link_layer_of(unsigned pci_class, unsigned vendor, unsigned device) {
  if (pci_class == 0x0207) return "InfiniBand";
  if (vendor == kAmazon && device >> 4 == 0xefa) return "EFA";
  if (vendor == kCray && pci_class >> 8 == 0x02) return "Slingshot";
  if (pci_class == 0x0200) return "Ethernet";
  return std::nullopt;
}

std::optional<int> nvlink_rate(unsigned device_id) {
  const unsigned family = device_id >> 8;
  if (family == 0x15) return 20000;                    // P100
  if (family == 0x1d) return 25000;                    // V100
  if (family == 0x20) return 25000;                    // A100, A30
  if (family == 0x23) return 25000;                    // H100, H200, GH200
  if (family == 0x29 || family == 0x31) return 50000;  // B200, GB200, B300
  return std::nullopt;
}

}  // namespace railyard::topology
