// The graphviz view.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "topology/compare.hpp"
#include "topology/hostlist.hpp"
#include "topology/render/render.hpp"

namespace railyard::topology {
namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out + "\"";
}

void add_node(std::string& out, const Machine& machine, const NodeGroup& group, std::size_t number) {
  const Node& node = machine.nodes[static_cast<std::size_t>(group.nodes[0])];
  const auto gpu_id = [&](const Gpu& gpu) { return quoted(fmt::format("g{}_gpu{}", number, gpu.index)); };
  const auto nic_id = [&](const std::string& name) { return quoted(fmt::format("g{}_nic_{}", number, name)); };
  out +=
      fmt::format("  subgraph \"cluster_{}\" {{\n    label={};\n", number, quoted(group_title(machine, group.nodes)));
  if (number > 0) out += "    color=red;\n";
  std::map<std::optional<int>, std::string> by_numa;
  for (const auto& gpu : node.gpus)
    by_numa[gpu.numa] +=
        fmt::format("      {} [label={}, style=filled, fillcolor=\"{}\"];\n", gpu_id(gpu), quoted(gpu_label(gpu)),
                    gpu.rail ? fmt::format("{:.3f} 0.25 0.95", (*gpu.rail % 16) / 16.0) : "white");
  for (const auto& nic : node.nics)
    by_numa[nic.numa] +=
        fmt::format("      {} [label={}, shape=ellipse{}{}];\n", nic_id(nic.name), quoted(nic.name),
                    nic.role == NicRole::kOther ? ", style=dashed" : "", nic.active == false ? ", color=red" : "");
  for (const auto& [numa, members] : by_numa)
    out += numa ? fmt::format("    subgraph \"cluster_{}_numa{}\" {{\n      label=\"NUMA {}\";\n{}    }}\n", number,
                              *numa, *numa, members)
                : members;
  for (const auto& gpu : node.gpus) {
    if (gpu.nvlink)
      for (const auto& [peer, links] : *gpu.nvlink)
        if (gpu.index < peer)
          if (const auto position = node.position_of(peer))
            out += fmt::format("    {} -- {} [label=\"NV{}\", penwidth={:.1f}, color=\"#76b900\"];\n", gpu_id(gpu),
                               gpu_id(node.gpus[static_cast<std::size_t>(*position)]),
                               links ? std::to_string(*links) : "#", 1 + std::min(links.value_or(1), 18) / 6.0);
    if (gpu.nic)
      out += fmt::format("    {} -- {} [label=\"rail {}, {}\"];\n", gpu_id(gpu), nic_id(*gpu.nic),
                         gpu.rail.value_or(-1), gpu.path ? path_name(*gpu.path) : "?");
  }
  out += "  }\n";
}

}  // namespace

std::string render_dot(const Machine& machine) {
  std::string out = "graph railyard {\n  node [shape=box, fontname=\"sans-serif\"];\n";
  const auto groups = group_alike(machine.nodes);
  for (std::size_t g = 0; g < groups.size(); ++g) add_node(out, machine, groups[g], g);
  if (machine.fabric) {
    for (const auto& sw : machine.fabric->switches) {
      const auto id = quoted("sw_" + sw.name);
      out += fmt::format("  {} [label={}, shape=hexagon];\n", id, quoted(sw.name));
      if (sw.parent) out += fmt::format("  {} -- {};\n", quoted("sw_" + *sw.parent), id);
      if (!sw.nodes.empty()) {
        const auto list = quoted("nodes_" + sw.name);
        out += fmt::format("  {} [label={}];\n  {} -- {};\n", list,
                           quoted(fmt::format("{} nodes: {}", sw.nodes.size(), fold_hostlist(sw.nodes))), id, list);
      }
    }
    for (const auto& block : machine.fabric->blocks)
      out += fmt::format("  {} [label={}, style=rounded];\n", quoted("block_" + block.name),
                         quoted(fmt::format("{}: {}", block.name, fold_hostlist(block.nodes))));
  }
  return out + "}\n";
}

}  // namespace railyard::topology
