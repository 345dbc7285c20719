// Merges nodes and fabrics.
#include "topology/merge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "topology/rails.hpp"

namespace railyard::topology {
namespace {

bool all_addressed(const Node& node) {
  return !node.gpus.empty() &&
         std::all_of(node.gpus.begin(), node.gpus.end(), [](const Gpu& gpu) { return gpu.pci.has_value(); });
}

// A source that people write by hand yields to those that machines print.
bool hand_written(const Node& node) { return node.source.starts_with("gres.conf"); }

bool named_by_address(const Nic& nic) { return nic.pci && nic.name == nic.pci->text(); }

class Merger {
 public:
  Merger(Node& node, const Node& other) : node_(node), other_(other), before_(node) {}
  void run();

 private:
  template <class Value>
  void field(std::optional<Value>& mine, const std::optional<Value>& theirs, const std::string& what) {
    if (!mine)
      mine = theirs;
    else if (theirs && *theirs != *mine)
      differ(what, fmt::format("{}", *mine), fmt::format("{}", *theirs));
  }
  void differ(const std::string& what, const std::string& mine, const std::string& theirs) {
    node_.warnings.push_back(fmt::format("{}: {} by {}, but {} by {}; the first is kept", what, mine, before_.source,
                                         theirs, other_.source));
  }
  void match_gpus();
  void match_nics();
  void merge_gpu(Gpu& mine, const Gpu& theirs);
  void merge_links();
  void merge_paths();
  [[nodiscard]] std::string device_name(int device) const;

  Node& node_;
  const Node& other_;
  const Node before_;
  std::vector<int> gpu_of_, nic_of_;  // position in `other_` -> position in `node_`
};

std::string Merger::device_name(int device) const {
  const auto gpus = static_cast<int>(node_.gpus.size());
  return device < gpus ? fmt::format("GPU{}", node_.gpus[static_cast<std::size_t>(device)].index)
                       : node_.nics[static_cast<std::size_t>(device - gpus)].name;
}

void Merger::merge_gpu(Gpu& mine, const Gpu& theirs) {
  const auto what = [&](const char* key) { return fmt::format("GPU{} {}", mine.index, key); };
  if (!mine.pci) mine.pci = theirs.pci;
  if (!mine.name) mine.name = theirs.name;
  if (!mine.uuid) mine.uuid = theirs.uuid;
  if (!mine.rack) mine.rack = theirs.rack;
  field(mine.numa, theirs.numa, what("NUMA node"));
  field(mine.partition, theirs.partition, what("partition"));
  if (!mine.cpus)
    mine.cpus = theirs.cpus;
  else if (theirs.cpus && !mine.cpus->subset_of(*theirs.cpus) && !theirs.cpus->subset_of(*mine.cpus))
    differ(what("CPUs"), mine.cpus->list(), theirs.cpus->list());
}

void Merger::match_gpus() {
  const bool by_address = all_addressed(node_) && all_addressed(other_);
  for (const Gpu& theirs : other_.gpus) {
    const auto it = std::find_if(node_.gpus.begin(), node_.gpus.end(), [&](const Gpu& mine) {
      return by_address ? mine.pci == theirs.pci && mine.partition == theirs.partition : mine.index == theirs.index;
    });
    if (it != node_.gpus.end()) {
      gpu_of_.push_back(static_cast<int>(it - node_.gpus.begin()));
      merge_gpu(*it, theirs);
      continue;
    }
    node_.warnings.push_back(
        fmt::format("GPU{} is listed by {} only, not by {}", theirs.index, other_.source, before_.source));
    Gpu added = theirs;
    added.nvlink.reset();
    if (node_.position_of(added.index)) added.index = node_.gpus.back().index + 1;
    gpu_of_.push_back(static_cast<int>(node_.gpus.size()));
    node_.gpus.push_back(std::move(added));
  }
  for (std::size_t g = 0; g < before_.gpus.size() && !other_.gpus.empty(); ++g)
    if (std::find(gpu_of_.begin(), gpu_of_.end(), static_cast<int>(g)) == gpu_of_.end())
      node_.warnings.push_back(
          fmt::format("GPU{} is listed by {} only, not by {}", before_.gpus[g].index, before_.source, other_.source));
}

void Merger::match_nics() {
  const auto nameless = [](const Node& node) {
    return !node.nics.empty() && std::all_of(node.nics.begin(), node.nics.end(), named_by_address);
  };
  const auto placeless = [](const Node& node) {
    return !node.nics.empty() &&
           std::none_of(node.nics.begin(), node.nics.end(), [](const Nic& nic) { return nic.pci.has_value(); });
  };
  // One source has addresses without names, the other names without addresses: both list them in PCI order.
  const bool by_order = node_.nics.size() == other_.nics.size() &&
                        ((nameless(node_) && placeless(other_)) || (placeless(node_) && nameless(other_)));
  if (by_order)
    node_.notes.push_back("NIC names and PCI addresses come from two sources and are matched in their order");
  for (std::size_t n = 0; n < other_.nics.size(); ++n) {
    const Nic& theirs = other_.nics[n];
    auto it = by_order ? node_.nics.begin() + static_cast<std::ptrdiff_t>(n)
                       : std::find_if(node_.nics.begin(), node_.nics.end(), [&](const Nic& mine) {
                           return mine.name == theirs.name || (mine.pci && mine.pci == theirs.pci &&
                                                               (named_by_address(mine) || named_by_address(theirs)));
                         });
    if (it == node_.nics.end()) {
      nic_of_.push_back(static_cast<int>(node_.nics.size()));
      node_.nics.push_back(theirs);
      continue;
    }
    Nic& mine = *it;
    nic_of_.push_back(static_cast<int>(it - node_.nics.begin()));
    if (named_by_address(mine) && !named_by_address(theirs)) mine.name = theirs.name;
    if (!mine.pci)
      mine.pci = theirs.pci;
    else if (theirs.pci && theirs.pci != mine.pci)
      differ(mine.name + " PCI address", mine.pci->text(), theirs.pci->text());
    field(mine.numa, theirs.numa, mine.name + " NUMA node");
    field(mine.link_layer, theirs.link_layer, mine.name + " link layer");
    field(mine.rate_gbps, theirs.rate_gbps, mine.name + " rate");
    if (!mine.rdma) mine.rdma = theirs.rdma;
    if (!mine.active)
      mine.active = theirs.active;
    else if (theirs.active && *theirs.active != *mine.active)
      differ(mine.name + " state", *mine.active ? "active" : "down", *theirs.active ? "active" : "down");
  }
}

void Merger::merge_links() {
  std::map<int, int> index_of;  // their index -> ours
  for (std::size_t g = 0; g < other_.gpus.size(); ++g)
    index_of[other_.gpus[g].index] = node_.gpus[static_cast<std::size_t>(gpu_of_[g])].index;
  for (std::size_t g = 0; g < other_.gpus.size(); ++g) {
    if (!other_.gpus[g].nvlink) continue;
    Gpu& mine = node_.gpus[static_cast<std::size_t>(gpu_of_[g])];
    std::map<int, std::optional<int>> theirs;
    for (const auto& [peer, links] : *other_.gpus[g].nvlink)
      if (index_of.contains(peer)) theirs[index_of[peer]] = links;
    if (!mine.nvlink) {
      mine.nvlink = std::move(theirs);
      continue;
    }
    for (const auto& [peer, links] : theirs) {
      const auto it = mine.nvlink->find(peer);
      if (it == mine.nvlink->end()) {
        if (mine.index < peer)
          differ(fmt::format("NVLink of GPU{} and GPU{}", mine.index, peer), "none",
                 links ? std::to_string(*links) : "joined");
      } else if (!it->second) {
        it->second = links;
      } else if (links && *links != *it->second && mine.index < peer) {
        differ(fmt::format("NVLink of GPU{} and GPU{}", mine.index, peer), std::to_string(*it->second),
               std::to_string(*links));
      }
    }
    for (const auto& [peer, links] : *mine.nvlink)
      if (!theirs.contains(peer) && mine.index < peer)
        differ(fmt::format("NVLink of GPU{} and GPU{}", mine.index, peer), links ? std::to_string(*links) : "joined",
               "none");
  }
}

void Merger::merge_paths() {
  const auto my_gpus = static_cast<int>(before_.gpus.size()), gpus = static_cast<int>(node_.gpus.size());
  PathTable paths(gpus + static_cast<int>(node_.nics.size()));
  const auto moved = [&](int device) { return device < my_gpus ? device : device - my_gpus + gpus; };
  for (int a = 0; a < before_.paths.devices(); ++a)
    for (int b = a + 1; b < before_.paths.devices(); ++b)
      paths.set(moved(a), moved(b), before_.paths.at(a, b), before_.paths.hops(a, b));
  const auto their_gpus = static_cast<int>(other_.gpus.size());
  const auto mapped = [&](int device) {
    return device < their_gpus ? gpu_of_[static_cast<std::size_t>(device)]
                               : gpus + nic_of_[static_cast<std::size_t>(device - their_gpus)];
  };
  int differing = 0;
  std::string example;
  for (int a = 0; a < other_.paths.devices(); ++a)
    for (int b = a + 1; b < other_.paths.devices(); ++b) {
      const auto theirs = other_.paths.at(a, b);
      if (!theirs) continue;
      const auto mine = paths.at(mapped(a), mapped(b));
      // NCCL's files do not show host bridges: it calls everything below one CPU PHB, where others tell NODE.
      const bool host_bridge =
          mine && ((mine == PathClass::kPhb && theirs == PathClass::kNode && before_.source.starts_with("NCCL")) ||
                   (mine == PathClass::kNode && theirs == PathClass::kPhb && other_.source.starts_with("NCCL")));
      if (host_bridge) {
        paths.set(mapped(a), mapped(b), PathClass::kNode);
        continue;
      }
      if (!mine)
        paths.set(mapped(a), mapped(b), theirs, other_.paths.hops(a, b));
      else if (*mine != *theirs && ++differing == 1)
        example = fmt::format("{} to {} is {} by {}, but {} by {}", device_name(mapped(a)), device_name(mapped(b)),
                              path_name(*mine), before_.source, path_name(*theirs), other_.source);
    }
  if (differing > 0)
    node_.warnings.push_back(
        fmt::format("{} PCIe paths differ between the sources; {}; the first is kept", differing, example));
  node_.paths = std::move(paths);
}

void Merger::run() {
  if (!node_.name) node_.name = other_.name;
  node_.source += " + " + other_.source;
  match_gpus();
  match_nics();
  merge_links();
  merge_paths();
  for (const auto& warning : other_.warnings)
    if (std::find(node_.warnings.begin(), node_.warnings.end(), warning) == node_.warnings.end())
      node_.warnings.push_back(warning);
  for (const auto& note : other_.notes)
    if (std::find(node_.notes.begin(), node_.notes.end(), note) == node_.notes.end()) node_.notes.push_back(note);
  // Notes of what was unknown to one source are stale once the other has told it.
  const bool rails_known = node_.nics.size() > 0,
             links_known = std::any_of(node_.gpus.begin(), node_.gpus.end(),
                                       [](const Gpu&gpu) { return gpu.nvlink.has_value(); });
  std::erase_if(node_.notes, [&](const std::string& note) {
    return (links_known && note.ends_with("NVLink is unknown")) ||
           (rails_known && note.find("rails") != std::string::npos);
  });
  normalise_links(node_);
  assign_rails(node_);
}

Fabric merge_fabrics(Fabric fabric, const Fabric& other) {
  std::map<std::string, std::size_t> known;
  for (std::size_t i = 0; i < fabric.switches.size(); ++i) known.try_emplace(fabric.switches[i].name, i);
  for (const auto& sw : other.switches) {
    const auto [it, fresh] = known.try_emplace(sw.name, fabric.switches.size());
    if (fresh) {
      fabric.switches.push_back(sw);
      continue;
    }
    Switch& mine = fabric.switches[it->second];
    if (!mine.parent)
      mine.parent = sw.parent;
    else if (sw.parent && *sw.parent != *mine.parent)
      fabric.warnings.push_back(fmt::format("switch {}: below {} by {}, but below {} by {}; the first is kept", sw.name,
                                            *mine.parent, fabric.source, *sw.parent, other.source));
    const std::set<std::string> attached(mine.nodes.begin(), mine.nodes.end());
    for (const auto& node : sw.nodes)
      if (!attached.contains(node)) mine.nodes.push_back(node);
  }
  std::set<std::string> blocks;
  for (const auto& block : fabric.blocks) blocks.insert(block.name);
  for (const auto& block : other.blocks)
    if (!blocks.contains(block.name)) fabric.blocks.push_back(block);
  if (fabric.block_sizes.empty()) fabric.block_sizes = other.block_sizes;
  fabric.warnings.insert(fabric.warnings.end(), other.warnings.begin(), other.warnings.end());
  fabric.notes.insert(fabric.notes.end(), other.notes.begin(), other.notes.end());
  fabric.source += " + " + other.source;
  if (!fabric.switches.empty() && !fabric.blocks.empty()) fabric.kind = "tree+block";
  finish_fabric(fabric);
  return fabric;
}

}  // namespace

bool may_be_same_machine(const Node& a, const Node& b) {
  if (a.name && b.name) return *a.name == *b.name;
  if (a.gpus.empty() || b.gpus.empty()) return false;
  if (all_addressed(a) && all_addressed(b))
    return std::any_of(a.gpus.begin(), a.gpus.end(), [&](const Gpu& gpu) {
      return std::any_of(b.gpus.begin(), b.gpus.end(), [&](const Gpu& other) { return other.pci == gpu.pci; });
    });
  return a.gpus.size() == b.gpus.size();
}

void merge_node(Node& node, const Node& other) {
  if (hand_written(node) && !hand_written(other)) {
    Node better = other;
    Merger(better, node).run();
    node = std::move(better);
    return;
  }
  Merger(node, other).run();
}

Machine merge_machines(std::vector<Machine> machines) {
  Machine result;
  for (auto& machine : machines) {
    const auto known = result.nodes.size();
    std::vector<bool> taken(known);
    for (auto& node : machine.nodes) {
      std::size_t match = 0;
      while (match < known && (taken[match] || !may_be_same_machine(result.nodes[match], node))) ++match;
      if (match < known) {
        taken[match] = true;
        merge_node(result.nodes[match], node);
      } else {
        result.nodes.push_back(std::move(node));
      }
    }
    if (machine.fabric)
      result.fabric =
          result.fabric ? merge_fabrics(std::move(*result.fabric), *machine.fabric) : std::move(machine.fabric);
  }
  return result;
}

}  // namespace railyard::topology
