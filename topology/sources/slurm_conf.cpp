// Slurm's topology.conf (topology/tree and topology/block) and `scontrol show topology`, which prints the same keys
// with a level. Format: topology.conf(5); keys in any case, # begins a comment, a backslash at the end joins lines.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "runtime/base/error.hpp"
#include "topology/hostlist.hpp"
#include "topology/sources/key_values.hpp"
#include "topology/sources/source.hpp"
#include "topology/sources/text.hpp"

namespace railyard::topology {
namespace {

struct SwitchLine {
  std::string name, place;
  std::vector<std::string> children, nodes;
};

}  // namespace

Machine read_slurm_conf(std::string_view text, const std::string& name) {
  Fabric fabric;
  fabric.source = "Slurm topology: " + name;
  std::vector<SwitchLine> switches;
  std::string sizes_place;
  std::size_t hosts = 0;
  const auto expand = [&](const std::string& list, const std::string& place) {
    auto names = expand_hostlist(list, place);
    hosts += names.size();
    if (hosts > kMostHosts) throw UsageError("{}: more than {} names in all", place, kMostHosts);
    return names;
  };
  for (const auto& line : read_key_values(text, name)) {
    if (const auto* key = line.find("SwitchName"); key != nullptr) {
      SwitchLine sw{*key, line.place, {}, {}};
      if (sw.name.empty()) throw UsageError("{}: a switch without a name", line.place);
      if (const auto* list = line.find("Switches"); list != nullptr) sw.children = expand(*list, line.place);
      if (const auto* list = line.find("Nodes"); list != nullptr && sw.children.empty())
        sw.nodes = expand(*list, line.place);
      switches.push_back(std::move(sw));
    } else if (const auto* block = line.find("BlockName"); block != nullptr) {
      if (const auto* list = line.find("Nodes"); list != nullptr)
        fabric.blocks.push_back({*block, expand(*list, line.place)});
      else
        throw UsageError("{}: block {} has no Nodes", line.place, *block);
    } else if (const auto* sizes = line.find("BlockSizes"); sizes != nullptr) {
      sizes_place = line.place;
      for (const auto size : split_at(*sizes, ',')) {
        const auto value = parse_number<int>(trimmed(size));
        if (!value || *value < 1)
          throw UsageError("{}: BlockSizes holds \"{}\", which is not a positive number", line.place, size);
        fabric.block_sizes.push_back(*value);
      }
    } else if (line.find("AggregatedBlock") == nullptr && line.find("Topology") == nullptr) {
      fabric.warnings.push_back(
          fmt::format("{}: neither a switch nor a block: \"{}\"", line.place, line.pairs.front().first));
    }
  }
  for (const auto& sw : switches) fabric.switches.push_back({sw.name, 0, std::nullopt, sw.nodes});
  std::map<std::string, std::size_t> index;
  for (std::size_t i = 0; i < fabric.switches.size(); ++i) index.try_emplace(fabric.switches[i].name, i);
  for (const auto& sw : switches)
    for (const auto& child : sw.children) {
      const auto found = index.find(child);
      if (found == index.end()) {
        fabric.warnings.push_back(
            fmt::format("{}: switch {} lists {}, which no line describes", sw.place, sw.name, child));
        continue;
      }
      auto& parent = fabric.switches[found->second].parent;
      if (parent && *parent != sw.name)
        fabric.notes.push_back(fmt::format("{}: switch {} has several parents; {} is kept", sw.place, child, *parent));
      else
        parent = sw.name;
    }
  const auto nodes_in_blocks =
      std::accumulate(fabric.blocks.begin(), fabric.blocks.end(), std::size_t{0},
                      [](std::size_t sum, const Block& block) { return sum + block.nodes.size(); });
  for (const int size : fabric.block_sizes)
    if (nodes_in_blocks > 0 && static_cast<std::size_t>(size) > nodes_in_blocks)
      fabric.warnings.push_back(
          fmt::format("{}: block size {} exceeds the {} nodes present", sizes_place, size, nodes_in_blocks));
  fabric.kind = fabric.blocks.empty() ? "tree" : fabric.switches.empty() ? "block" : "tree+block";
  if (fabric.switches.empty() && fabric.blocks.empty()) throw UsageError("{}:1: neither switches nor blocks", name);
  finish_fabric(fabric);
  Machine machine;
  machine.fabric = std::move(fabric);
  return machine;
}

}  // namespace railyard::topology
