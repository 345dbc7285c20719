// Levels and paths of a switch tree; synthetic fabrics.
#include "topology/fabric.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "runtime/base/error.hpp"

namespace railyard::topology {
namespace {

std::map<std::string, int> switch_indices(const Fabric& fabric) {
  std::map<std::string, int> indices;
  for (std::size_t i = 0; i < fabric.switches.size(); ++i)
    indices.try_emplace(fabric.switches[i].name, static_cast<int>(i));
  return indices;
}

void check_depth(const Fabric& fabric, int depth) {
  if (depth > kDeepestFabric)
    throw UsageError("{}: switches are nested deeper than {} levels", fabric.source, kDeepestFabric);
}

// Parent indices, with every parent that would close a cycle removed.
std::vector<int> parents_without_cycles(Fabric& fabric) {
  const auto indices = switch_indices(fabric);
  std::vector<int> parents(fabric.switches.size(), -1);
  for (std::size_t i = 0; i < fabric.switches.size(); ++i) {
    Switch& sw = fabric.switches[i];
    if (!sw.parent) continue;
    const auto it = indices.find(*sw.parent);
    if (it == indices.end()) {
      fabric.warnings.push_back(fmt::format("switch {}: its parent {} is not described", sw.name, *sw.parent));
      sw.parent.reset();
      continue;
    }
    int above = it->second;
    for (int steps = 0; above >= 0 && above != static_cast<int>(i); ++steps) {
      check_depth(fabric, steps);
      above = parents[static_cast<std::size_t>(above)];
    }
    if (above == static_cast<int>(i)) {
      fabric.warnings.push_back(
          fmt::format("switch {}: it is its own ancestor through {}; the cycle is cut here", sw.name, *sw.parent));
      sw.parent.reset();
      continue;
    }
    parents[i] = it->second;
  }
  return parents;
}

}  // namespace

const Switch* Fabric::find_switch(const std::string& switch_name) const {
  const auto it =
      std::find_if(switches.begin(), switches.end(), [&](const Switch& sw) { return sw.name == switch_name; });
  return it == switches.end() ? nullptr : &*it;
}

void finish_fabric(Fabric& fabric) {
  std::set<std::string> names;
  for (const auto& sw : fabric.switches)
    if (!names.insert(sw.name).second) fabric.warnings.push_back(fmt::format("switch {} is described twice", sw.name));
  const auto parents = parents_without_cycles(fabric);
  for (auto& sw : fabric.switches) sw.level = 0;
  for (std::size_t i = 0; i < fabric.switches.size(); ++i) {
    int level = 0;
    for (int above = parents[i]; above >= 0; above = parents[static_cast<std::size_t>(above)]) {
      Switch& sw = fabric.switches[static_cast<std::size_t>(above)];
      level = std::max(level + 1, sw.level);
      check_depth(fabric, level);
      sw.level = level;
    }
  }
  std::map<std::string, std::string> attached;
  for (const auto& sw : fabric.switches)
    for (const auto& node : sw.nodes) {
      const auto [it, fresh] = attached.try_emplace(node, sw.name);
      if (!fresh && it->second != sw.name)
        fabric.warnings.push_back(fmt::format("node {} is attached to both {} and {}", node, it->second, sw.name));
    }
  std::map<std::string, std::string> in_block;
  for (const auto& block : fabric.blocks)
    for (const auto& node : block.nodes) {
      const auto [it, fresh] = in_block.try_emplace(node, block.name);
      if (!fresh && it->second != block.name)
        fabric.warnings.push_back(
            fmt::format("node {} is in both block {} and block {}", node, it->second, block.name));
    }
  const auto tops =
      std::count_if(fabric.switches.begin(), fabric.switches.end(), [](const Switch& sw) { return !sw.parent; });
  if (tops > 1) fabric.notes.push_back(fmt::format("{} switches have no parent: what joins them is unknown", tops));
}

std::map<std::string, std::vector<int>> switch_paths(const Fabric& fabric) {
  const auto indices = switch_indices(fabric);
  std::map<std::string, std::vector<int>> paths;
  for (std::size_t i = 0; i < fabric.switches.size(); ++i) {
    std::vector<int> path{static_cast<int>(i)};
    while (path.size() <= fabric.switches.size()) {
      const auto& parent = fabric.switches[static_cast<std::size_t>(path.back())].parent;
      const auto it = parent ? indices.find(*parent) : indices.end();
      if (it == indices.end()) break;
      path.push_back(it->second);
    }
    for (const auto& node : fabric.switches[i].nodes) paths.try_emplace(node, path);
  }
  return paths;
}

Fabric make_fat_tree(const FatTreeSpec& spec) {
  if (spec.nodes < 1 || spec.nodes_per_leaf < 1)
    throw UsageError("fat tree: nodes and nodes per leaf must be positive");
  Fabric fabric;
  fabric.kind = "tree";
  fabric.source = "synthetic";
  const int leaves = (spec.nodes + spec.nodes_per_leaf - 1) / spec.nodes_per_leaf;
  const int per_spine = spec.leaves_per_spine > 0 ? spec.leaves_per_spine : leaves;
  const int spines = (leaves + per_spine - 1) / per_spine;
  for (int leaf = 0; leaf < leaves; ++leaf)
    fabric.switches.push_back({fmt::format("leaf{}", leaf), 0, fmt::format("spine{}", leaf / per_spine), {}});
  for (int node = 0; node < spec.nodes; ++node) {
    const int leaf = spec.round_robin ? node % leaves : node / spec.nodes_per_leaf;
    fabric.switches[static_cast<std::size_t>(leaf)].nodes.push_back(
        fmt::format("node{:0{}}", node + 1, spec.node_width));
  }
  for (int spine = 0; spine < spines; ++spine)
    fabric.switches.push_back(
        {fmt::format("spine{}", spine), 1, spines > 1 ? std::optional<std::string>("core") : std::nullopt, {}});
  if (spines > 1) fabric.switches.push_back({"core", 2, std::nullopt, {}});
  finish_fabric(fabric);
  return fabric;
}

Fabric make_nvlink_racks(int racks, int nodes_per_rack) {
  if (racks < 1 || nodes_per_rack < 1) throw UsageError("NVLink racks: racks and nodes per rack must be positive");
  Fabric fabric;
  fabric.kind = "tree+block";
  fabric.source = "synthetic";
  for (int rack = 0; rack < racks; ++rack) {
    std::vector<std::string> nodes;
    for (int node = 0; node < nodes_per_rack; ++node) nodes.push_back(fmt::format("r{}n{:02}", rack + 1, node + 1));
    fabric.switches.push_back({fmt::format("leaf{}", rack + 1), 0, std::string("spine"), nodes});
    fabric.blocks.push_back({fmt::format("rack{}", rack + 1), std::move(nodes)});
  }
  fabric.switches.push_back({"spine", 1, std::nullopt, {}});
  finish_fabric(fabric);
  return fabric;
}

}  // namespace railyard::topology
