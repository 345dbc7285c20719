// Slurm's topology.yaml: a list of topologies (tree, block, flat, ring, torus3d). Format: topology.yaml(5). The
// cluster's default gives the switches; blocks of another topology of the same file are kept beside them, and said to
// be.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "runtime/base/error.hpp"
#include "topology/hostlist.hpp"
#include "topology/sources/source.hpp"
#include "topology/sources/text.hpp"
#include "topology/sources/yaml.hpp"

namespace railyard::topology {
namespace {

class Reader {
 public:
  explicit Reader(std::string name) : name_(std::move(name)) {}
  Machine read(const YamlNode& root);

 private:
  [[nodiscard]] std::string place(const YamlNode& node) const { return fmt::format("{}:{}", name_, node.line); }
  std::vector<std::string> hosts(const YamlNode& list);
  void read_tree(const YamlNode& tree, Fabric& fabric);
  void read_blocks(const YamlNode& block, Fabric& fabric);
  // The word under one of `keys`; UsageError when there is none.
  std::string word(const YamlNode& node, std::initializer_list<const char*> keys) const;

  std::string name_;
  std::size_t names_ = 0;
};

std::vector<std::string> Reader::hosts(const YamlNode& list) {
  std::vector<std::string> names;
  if (list.kind == YamlNode::Kind::kScalar) names = expand_hostlist(list.scalar, place(list));
  for (const auto& item : list.items) {
    auto more = expand_hostlist(item.scalar, place(item));
    if ((names_ += more.size()) > kMostHosts)
      throw UsageError("{}: more than {} names in all", place(item), kMostHosts);
    names.insert(names.end(), more.begin(), more.end());
  }
  if (list.items.empty() && (names_ += names.size()) > kMostHosts)
    throw UsageError("{}: more than {} names in all", place(list), kMostHosts);
  return names;
}

std::string Reader::word(const YamlNode& node, std::initializer_list<const char*> keys) const {
  for (const char* key : keys)
    if (const auto* value = node.find(key); value != nullptr && !value->scalar.empty()) return value->scalar;
  throw UsageError("{}: \"{}\" is missing here", place(node), *keys.begin());
}

void Reader::read_tree(const YamlNode& tree, Fabric& fabric) {
  const auto* switches = tree.find("switches");
  if (switches == nullptr) throw UsageError("{}: a tree without \"switches\"", place(tree));
  std::vector<std::pair<std::string, std::vector<std::string>>> children;
  for (const auto& entry : switches->items) {
    Switch sw{word(entry, {"switch", "name"}), 0, std::nullopt, {}};
    if (const auto* list = entry.find("children"); list != nullptr)
      children.emplace_back(sw.name, hosts(*list));
    else if (const auto* nodes = entry.find("nodes"); nodes != nullptr)
      sw.nodes = hosts(*nodes);
    fabric.switches.push_back(std::move(sw));
  }
  std::map<std::string, std::size_t> index;
  for (std::size_t i = 0; i < fabric.switches.size(); ++i) index.try_emplace(fabric.switches[i].name, i);
  for (const auto& [parent, names] : children)
    for (const auto& child : names) {
      const auto it = index.find(child);
      if (it == index.end())
        fabric.warnings.push_back(
            fmt::format("{}: switch {} lists {}, which is not described", place(*switches), parent, child));
      else if (!fabric.switches[it->second].parent)
        fabric.switches[it->second].parent = parent;
    }
}

void Reader::read_blocks(const YamlNode& block, Fabric& fabric) {
  if (const auto* sizes = block.find("block_sizes"); sizes != nullptr)
    for (const auto& size : sizes->items) {
      const auto value = parse_number<int>(size.scalar);
      if (!value || *value < 1)
        throw UsageError("{}: block size \"{}\" is not a positive number", place(size), size.scalar);
      fabric.block_sizes.push_back(*value);
    }
  const auto* blocks = block.find("blocks");
  if (blocks == nullptr) throw UsageError("{}: a block topology without \"blocks\"", place(block));
  std::size_t present = 0;
  for (const auto& entry : blocks->items) {
    Block found{word(entry, {"block", "name"}), {}};
    if (const auto* nodes = entry.find("nodes"); nodes != nullptr) found.nodes = hosts(*nodes);
    present += found.nodes.size();
    fabric.blocks.push_back(std::move(found));
  }
  for (const int size : fabric.block_sizes)
    if (static_cast<std::size_t>(size) > present)
      fabric.warnings.push_back(
          fmt::format("{}: block size {} exceeds the {} nodes present", place(*blocks), size, present));
}

Machine Reader::read(const YamlNode& root) {
  if (root.kind != YamlNode::Kind::kList || root.items.empty())
    throw UsageError("{}: topology.yaml must be a list of topologies", place(root));
  const YamlNode* chosen = nullptr;
  for (const auto& topology : root.items) {
    const auto* by_default = topology.find("cluster_default");
    if (by_default != nullptr && by_default->is_true()) {
      if (chosen != nullptr) throw UsageError("{}: two topologies are cluster_default", place(topology));
      chosen = &topology;
    }
  }
  if (chosen == nullptr) chosen = root.items.data();
  Fabric fabric;
  fabric.source = "Slurm topology.yaml: " + name_;
  fabric.kind = "flat";
  const auto* tree = chosen->find("tree");
  const auto* block = chosen->find("block");
  if (tree != nullptr) read_tree(*tree, fabric);
  if (block != nullptr) read_blocks(*block, fabric);
  if (root.items.size() > 1)
    fabric.notes.push_back(fmt::format("{}: {} topologies; {} is the cluster's default and is shown", name_,
                                       root.items.size(), word(*chosen, {"topology"})));
  for (const auto& topology : root.items) {
    if (&topology == chosen) continue;
    const auto* other = topology.find("block");
    if (other == nullptr || !fabric.blocks.empty()) continue;
    read_blocks(*other, fabric);
    fabric.notes.push_back(fmt::format("{}: the blocks are those of topology {}, which is not the default",
                                       place(topology), word(topology, {"topology"})));
  }
  for (const auto* kind : {"ring", "torus3d"})
    if (chosen->find(kind) != nullptr) {
      fabric.kind = kind;
      fabric.notes.push_back(fmt::format("{}: a {} has no switches to show", place(*chosen), kind));
    }
  if (!fabric.switches.empty())
    fabric.kind = fabric.blocks.empty() ? "tree" : "tree+block";
  else if (!fabric.blocks.empty())
    fabric.kind = "block";
  finish_fabric(fabric);
  Machine machine;
  machine.fabric = std::move(fabric);
  return machine;
}

}  // namespace

Machine read_slurm_yaml(std::string_view text, const std::string& name) {
  return Reader(name).read(read_yaml(text, name));
}

}  // namespace railyard::topology
