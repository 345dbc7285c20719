// NVIDIA topograph's models (YAML): switches by name with their children, and blocks or capacity blocks of nodes, each
// perhaps with the NVLink domain (accelerator) that joins its nodes. Both the older form (lists with names) and the
// newer (maps by name) are read.
#include <fmt/format.h>

#include <map>
#include <set>

#include "runtime/base/error.hpp"
#include "topology/hostlist.hpp"
#include "topology/sources/source.hpp"
#include "topology/sources/yaml.hpp"

namespace railyard::topology {
namespace {

class Reader {
 public:
  explicit Reader(std::string name) : name_(std::move(name)) {}
  Machine read(const YamlNode& root);

 private:
  [[nodiscard]] std::string place(const YamlNode& node) const { return fmt::format("{}:{}", name_, node.line); }
  std::vector<std::string> names(const YamlNode* list);
  void add_switch(const std::string& name, const YamlNode& node);
  void add_block(const std::string& fallback, const YamlNode& node);
  Switch& switch_named(const std::string& name);

  std::string name_;
  Fabric fabric_;
  std::map<std::string, std::size_t> index_;
  std::vector<std::pair<std::string, std::string>> edges_;  // parent, child
  std::size_t names_ = 0;
};

std::vector<std::string> Reader::names(const YamlNode* list) {
  std::vector<std::string> all;
  if (list == nullptr) return all;
  const auto add = [&](const YamlNode& item) {
    auto more = expand_hostlist(item.scalar, place(item));
    if ((names_ += more.size()) > kMostHosts)
      throw UsageError("{}: more than {} names in all", place(item), kMostHosts);
    all.insert(all.end(), more.begin(), more.end());
  };
  if (list->kind == YamlNode::Kind::kScalar && !list->scalar.empty()) add(*list);
  for (const auto& item : list->items) add(item);
  for (const auto& [key, value] : list->entries) all.push_back(key);
  return all;
}

Switch& Reader::switch_named(const std::string& name) {
  const auto [it, fresh] = index_.try_emplace(name, fabric_.switches.size());
  if (fresh) fabric_.switches.push_back({name, 0, std::nullopt, {}});
  return fabric_.switches[it->second];
}

void Reader::add_switch(const std::string& name, const YamlNode& node) {
  switch_named(name);
  for (auto& child : names(node.find("switches"))) edges_.emplace_back(name, std::move(child));
  for (auto& attached : names(node.find("nodes"))) switch_named(name).nodes.push_back(std::move(attached));
}

void Reader::add_block(const std::string& fallback, const YamlNode& node) {
  Block block{fallback, names(node.find("nodes"))};
  if (const auto* name = node.find("name"); name != nullptr && !name->scalar.empty()) block.name = name->scalar;
  if (const auto* domain = node.find("nvlink"); domain != nullptr && !domain->scalar.empty())
    block.name = domain->scalar;
  for (const char* group : {"labels", "annotations"})
    if (const auto* map = node.find(group); map != nullptr)
      for (const auto& [key, value] : map->entries)
        if (key.ends_with("/domain") || key.ends_with("/accelerator") || key.ends_with("clique"))
          block.name = value.scalar;
  if (const auto* leaf = node.find("switch"); leaf != nullptr && !leaf->scalar.empty()) {
    auto& attached = switch_named(leaf->scalar).nodes;
    const std::set<std::string> before(attached.begin(), attached.end());
    for (const auto& name : block.nodes)
      if (!before.contains(name)) attached.push_back(name);
  }
  fabric_.blocks.push_back(std::move(block));
}

Machine Reader::read(const YamlNode& root) {
  fabric_.source = "topograph model: " + name_;
  if (const auto* switches = root.find("switches"); switches != nullptr) {
    for (const auto& [name, node] : switches->entries) add_switch(name, node);
    for (const auto& node : switches->items) {
      const auto* name = node.find("name");
      if (name == nullptr) throw UsageError("{}: a switch without a name", place(node));
      add_switch(name->scalar, node);
    }
  }
  for (const char* key : {"blocks", "capacity_blocks"})
    if (const auto* blocks = root.find(key); blocks != nullptr) {
      for (const auto& [name, node] : blocks->entries) add_block(name, node);
      for (const auto& node : blocks->items) add_block(fmt::format("block{}", fabric_.blocks.size() + 1), node);
    }
  for (const auto& [parent, child] : edges_) {
    const auto it = index_.find(child);
    if (it == index_.end()) {
      fabric_.warnings.push_back(fmt::format("{}: switch {} lists {}, which is not described", name_, parent, child));
      continue;
    }
    auto& above = fabric_.switches[it->second].parent;
    if (above && *above != parent)
      fabric_.notes.push_back(fmt::format("{}: switch {} has several parents; {} is kept", name_, child, *above));
    else
      above = parent;
  }
  if (fabric_.switches.empty() && fabric_.blocks.empty()) throw UsageError("{}:1: neither switches nor blocks", name_);
  fabric_.kind = fabric_.blocks.empty() ? "tree" : fabric_.switches.empty() ? "block" : "tree+block";
  finish_fabric(fabric_);
  Machine machine;
  machine.fabric = std::move(fabric_);
  return machine;
}

}  // namespace

Machine read_topograph(std::string_view text, const std::string& name) {
  return Reader(name).read(read_yaml(text, name));
}

}  // namespace railyard::topology
