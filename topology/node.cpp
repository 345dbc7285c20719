// Facts that follow from a node's devices: NVLink domains and cliques.
#include "topology/node.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

namespace railyard::topology {
namespace {

constexpr std::array<std::string_view, 5> kPathNames{"PIX", "PXB", "PHB", "NODE", "SYS"};

}  // namespace

std::string_view path_name(PathClass path) { return kPathNames[static_cast<std::size_t>(path)]; }

std::optional<PathClass> parse_path(std::string_view word) {
  if (word == "SOC") return PathClass::kSys;
  const auto it = std::find(kPathNames.begin(), kPathNames.end(), word);
  if (it == kPathNames.end()) return std::nullopt;
  return static_cast<PathClass>(it - kPathNames.begin());
}

std::optional<PathClass> PathTable::at(int a, int b) const {
  if (a < 0 || b < 0 || a >= devices_ || b >= devices_) return std::nullopt;
  return cells_[static_cast<std::size_t>(a) * devices_ + b].path;
}

int PathTable::hops(int a, int b) const {
  return at(a, b) ? cells_[static_cast<std::size_t>(a) * devices_ + b].hops : 0;
}

void PathTable::set(int a, int b, std::optional<PathClass> path, int hops) {
  cells_[static_cast<std::size_t>(a) * devices_ + b] = {path, hops};
  cells_[static_cast<std::size_t>(b) * devices_ + a] = {path, hops};
}

std::optional<int> Node::position_of(int gpu_index) const {
  const auto it = std::find_if(gpus.begin(), gpus.end(), [&](const Gpu& gpu) { return gpu.index == gpu_index; });
  if (it == gpus.end()) return std::nullopt;
  return static_cast<int>(it - gpus.begin());
}

const Nic* Node::find_nic(std::string_view nic_name) const {
  const auto it = std::find_if(nics.begin(), nics.end(), [&](const Nic& nic) { return nic.name == nic_name; });
  return it == nics.end() ? nullptr : &*it;
}

void normalise_links(Node& node) {
  for (Gpu& gpu : node.gpus) {
    if (!gpu.nvlink) continue;
    bool dropped = false;
    for (auto it = gpu.nvlink->begin(); it != gpu.nvlink->end();) {
      if (it->first == gpu.index || !node.position_of(it->first)) {
        node.warnings.push_back(
            it->first == gpu.index
                ? fmt::format("GPU{}: an NVLink edge points at the GPU itself; dropped", gpu.index)
                : fmt::format("GPU{}: an NVLink edge points at no GPU of the node; dropped", gpu.index));
        it = gpu.nvlink->erase(it);
        dropped = true;
      } else {
        ++it;
      }
    }
    // An invalid edge says that there are links, not where: what is left of the row is not the truth.
    if (dropped && gpu.nvlink->empty()) gpu.nvlink.reset();
  }
  for (const Gpu& gpu : std::vector<Gpu>(node.gpus)) {
    if (!gpu.nvlink) continue;
    for (const auto& [peer, links] : *gpu.nvlink) {
      Gpu& other = node.gpus[static_cast<std::size_t>(*node.position_of(peer))];
      if (!other.nvlink) {
        other.nvlink.emplace();
      } else if (!other.nvlink->contains(gpu.index)) {
        node.warnings.push_back(
            fmt::format("GPU{} lists NVLinks to GPU{}, which does not list them back", gpu.index, peer));
      }
      const auto [it, fresh] = other.nvlink->try_emplace(gpu.index, links);
      if (!fresh && gpu.index < peer && it->second != links)
        node.warnings.push_back(fmt::format("GPU{} and GPU{} disagree on their NVLink count", gpu.index, peer));
    }
  }
}

void sort_by_pci(Node& node) {
  const std::size_t gpus = node.gpus.size();
  if (std::any_of(node.gpus.begin(), node.gpus.end(), [](const Gpu& gpu) { return !gpu.pci; })) return;
  std::vector<std::size_t> order(gpus);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return *node.gpus[a].pci < *node.gpus[b].pci; });
  std::map<int, int> renamed;
  std::vector<Gpu> sorted;
  for (std::size_t g = 0; g < gpus; ++g) {
    renamed[node.gpus[order[g]].index] = static_cast<int>(g);
    sorted.push_back(std::move(node.gpus[order[g]]));
    sorted.back().index = static_cast<int>(g);
  }
  for (Gpu& gpu : sorted) {
    if (!gpu.nvlink) continue;
    std::map<int, std::optional<int>> links;
    for (const auto& [peer, count] : *gpu.nvlink)
      if (const auto found = renamed.find(peer); found != renamed.end()) links[found->second] = count;
    gpu.nvlink = std::move(links);
  }
  const auto before = [&](int device) {
    return device < static_cast<int>(gpus) ? static_cast<int>(order[static_cast<std::size_t>(device)]) : device;
  };
  PathTable paths(node.paths.devices());
  for (int a = 0; a < paths.devices(); ++a)
    for (int b = a + 1; b < paths.devices(); ++b)
      paths.set(a, b, node.paths.at(before(a), before(b)), node.paths.hops(before(a), before(b)));
  node.paths = std::move(paths);
  node.gpus = std::move(sorted);
}

std::optional<std::vector<std::vector<int>>> nvlink_domains(const Node& node) {
  if (std::none_of(node.gpus.begin(), node.gpus.end(), [](const Gpu& gpu) { return gpu.nvlink.has_value(); }))
    return std::nullopt;
  std::vector<std::vector<int>> domains;
  std::vector<bool> seen(node.gpus.size());
  for (std::size_t start = 0; start < node.gpus.size(); ++start) {
    if (seen[start]) continue;
    std::vector<int> reached{static_cast<int>(start)};
    seen[start] = true;
    for (std::size_t next = 0; next < reached.size(); ++next) {
      const Gpu& gpu = node.gpus[static_cast<std::size_t>(reached[next])];
      if (!gpu.nvlink) continue;
      for (const auto& [peer, links] : *gpu.nvlink) {
        const auto position = node.position_of(peer);
        if (!position || seen[static_cast<std::size_t>(*position)]) continue;
        seen[static_cast<std::size_t>(*position)] = true;
        reached.push_back(*position);
      }
    }
    if (reached.size() < 2) continue;
    std::vector<int> domain;
    for (const int position : reached) domain.push_back(node.gpus[static_cast<std::size_t>(position)].index);
    std::sort(domain.begin(), domain.end());
    domains.push_back(std::move(domain));
  }
  std::sort(domains.begin(), domains.end());
  return domains;
}

bool is_clique(const Node& node, const std::vector<int>& gpu_indices) {
  for (const int a : gpu_indices) {
    const auto position = node.position_of(a);
    if (!position) return false;
    const auto& links = node.gpus[static_cast<std::size_t>(*position)].nvlink;
    for (const int b : gpu_indices)
      if (a != b && (!links || !links->contains(b))) return false;
  }
  return true;
}

}  // namespace railyard::topology
