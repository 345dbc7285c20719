// Finds rail NICs and deals them to GPUs.
#include "topology/rails.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>

namespace railyard::topology {
namespace {

constexpr int kFar = static_cast<int>(PathClass::kSys);
constexpr int kSwitched = static_cast<int>(PathClass::kPxb);
constexpr int kUnknown = kFar + 1;

int rank_of(std::optional<PathClass> path) { return path ? static_cast<int>(*path) : kUnknown; }

// The class of the nearest of `nics` to a GPU, kUnknown when no path is known.
int nearest(const Node& node, int gpu, const std::vector<int>& nics) {
  int best = kUnknown;
  for (const int nic : nics) best = std::min(best, rank_of(node.nic_path(gpu, nic)));
  return best;
}

bool infiniband(const Nic& nic) { return nic.link_layer && *nic.link_layer != "Ethernet"; }

// NICs that can be rails at all: fabric devices; without a shared switch also the better kind of link.
std::vector<int> candidates(const Node& node, bool switched) {
  std::vector<int> nics;
  for (std::size_t i = 0; i < node.nics.size(); ++i)
    if (node.nics[i].rdma.value_or(true)) nics.push_back(static_cast<int>(i));
  if (switched) return nics;
  const auto nic_of = [&](int i) -> const Nic& { return node.nics[static_cast<std::size_t>(i)]; };
  if (std::any_of(nics.begin(), nics.end(), [&](int i) { return infiniband(nic_of(i)); }))
    std::erase_if(nics, [&](int i) { return nic_of(i).link_layer && !infiniband(nic_of(i)); });
  double fastest = 0;
  for (const int i : nics) fastest = std::max(fastest, nic_of(i).rate_gbps.value_or(0));
  std::erase_if(nics, [&](int i) { return nic_of(i).rate_gbps && *nic_of(i).rate_gbps < fastest; });
  return nics;
}

std::vector<int> pci_order(const Node& node, std::vector<int> nics) {
  const bool known = std::all_of(nics.begin(), nics.end(),
                                 [&](int i) { return node.nics[static_cast<std::size_t>(i)].pci.has_value(); });
  if (known)
    std::stable_sort(nics.begin(), nics.end(), [&](int a, int b) {
      return *node.nics[static_cast<std::size_t>(a)].pci < *node.nics[static_cast<std::size_t>(b)].pci;
    });
  return nics;
}

long bus_distance(const Gpu& gpu, const Nic& nic) {
  if (!gpu.pci || !nic.pci || gpu.pci->domain != nic.pci->domain) return 0;
  return std::abs(static_cast<long>(gpu.pci->bus) - static_cast<long>(nic.pci->bus));
}

void warn_missing_rails(Node& node) {
  std::map<std::string, std::vector<int>> users;
  std::vector<int> without;
  for (const Gpu& gpu : node.gpus) {
    if (gpu.nic)
      users[*gpu.nic].push_back(gpu.index);
    else
      without.push_back(gpu.index);
  }
  int alone = 0;
  for (const auto& [nic, gpus] : users) alone += gpus.size() == 1;
  const bool one_each = alone * 2 > static_cast<int>(node.gpus.size());
  for (const auto& [nic, gpus] : users) {
    if (gpus.size() < 2) continue;
    auto text = fmt::format("GPUs {} share the rail of {}", fmt::join(gpus, ","), nic);
    if (one_each)
      node.warnings.push_back(text + ", while the others have one each");
    else
      node.notes.push_back(std::move(text));
  }
  if (!without.empty() && !users.empty()) {
    auto text = fmt::format("GPUs {} have no near NIC: their traffic crosses sockets", fmt::join(without, ","));
    (one_each ? node.warnings : node.notes).push_back(std::move(text));
  }
  for (const auto& [nic, gpus] : users) {
    const Nic* device = node.find_nic(nic);
    if (device != nullptr && device->active == false)
      node.warnings.push_back(fmt::format("{}, the rail of GPU {}, is down; check its cable and subnet manager", nic,
                                          fmt::join(gpus, ",")));
  }
}

void deal(Node& node, const std::vector<int>& rails) {
  std::map<int, int> taken;
  for (std::size_t g = 0; g < node.gpus.size(); ++g) {
    Gpu& gpu = node.gpus[g];
    const int best = nearest(node, static_cast<int>(g), rails);
    if (best < kUnknown) gpu.path = static_cast<PathClass>(best);
    gpu.near_nics.emplace();
    if (best >= kFar) {
      if (best == kUnknown) gpu.near_nics.reset();
      continue;
    }
    const auto hops = [&](int nic) {
      return node.paths.hops(static_cast<int>(g), static_cast<int>(node.gpus.size()) + nic);
    };
    int chosen = -1, fewest = -1;
    for (const int nic : rails)
      if (rank_of(node.nic_path(static_cast<int>(g), nic)) == best && (fewest < 0 || hops(nic) < fewest))
        fewest = hops(nic);
    for (const int nic : rails) {
      if (rank_of(node.nic_path(static_cast<int>(g), nic)) != best || hops(nic) != fewest) continue;
      const Nic& device = node.nics[static_cast<std::size_t>(nic)];
      gpu.near_nics->push_back(device.name);
      const auto key = [&](int i) {
        return std::pair(taken[i], bus_distance(gpu, node.nics[static_cast<std::size_t>(i)]));
      };
      if (chosen < 0 || key(nic) < key(chosen)) chosen = nic;
    }
    ++taken[chosen];
    gpu.nic = node.nics[static_cast<std::size_t>(chosen)].name;
    gpu.rail = static_cast<int>(std::find(rails.begin(), rails.end(), chosen) - rails.begin());
  }
}

}  // namespace

void assign_rails(Node& node) {
  for (Gpu& gpu : node.gpus) {
    gpu.nic.reset();
    gpu.near_nics.reset();
    gpu.path.reset();
    gpu.rail.reset();
  }
  for (Nic& nic : node.nics) nic.role = nic.rdma == false ? std::optional(NicRole::kOther) : std::nullopt;
  if (node.gpus.empty()) return;
  if (node.nics.empty()) {
    node.notes.emplace_back("no NIC is listed: rails are unknown");
    return;
  }
  const auto fabric_nics = candidates(node, true);
  int closest = kUnknown;
  for (std::size_t g = 0; g < node.gpus.size(); ++g)
    closest = std::min(closest, nearest(node, static_cast<int>(g), fabric_nics));
  if (fabric_nics.empty()) {
    for (Gpu& gpu : node.gpus) gpu.near_nics.emplace();
    node.notes.emplace_back("no NIC is a fabric device: there are no rails");
    return;
  }
  if (closest >= kFar) {
    for (Gpu& gpu : node.gpus)
      if (closest == kFar) gpu.path = PathClass::kSys;
    node.notes.emplace_back(closest == kFar ? "every NIC is SYS from every GPU: paths tell no rails; they are unknown "
                                              "(NUMA and link facts of the live node may tell)"
                                            : "no path between GPUs and NICs is known: rails are unknown");
    return;
  }
  const bool switched = closest <= kSwitched;
  const auto pool = candidates(node, switched);
  std::vector<int> rails;
  for (const int nic : pool) {
    const bool rail = std::any_of(node.gpus.begin(), node.gpus.end(), [&](const Gpu& gpu) {
      const int g = static_cast<int>(&gpu - node.gpus.data());
      const int path = rank_of(node.nic_path(g, nic));
      return path == nearest(node, g, pool) && path <= (switched ? kSwitched : kFar - 1);
    });
    if (rail) rails.push_back(nic);
  }
  for (std::size_t i = 0; i < node.nics.size(); ++i)
    node.nics[i].role =
        std::find(rails.begin(), rails.end(), static_cast<int>(i)) != rails.end() ? NicRole::kRail : NicRole::kOther;
  deal(node, pci_order(node, std::move(rails)));
  warn_missing_rails(node);
}

}  // namespace railyard::topology
