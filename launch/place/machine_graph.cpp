// Builds slots, containers and links from an allocation.
#include "launch/place/machine_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "runtime/base/error.hpp"
#include "topology/hostlist.hpp"

namespace railyard::launch {
namespace {

constexpr double kGiga = 1e9;
constexpr double kNicEfficiency = 0.97;  // of the line rate; see LinkRates::nic
constexpr double kPcieOverNic = 1.05;    // 16 lanes of the generation that a NIC is made for, against its rate

double nvlink_rate(const topology::Gpu& gpu, const LinkRates& rates) {
  const std::string name = gpu.name.value_or("");
  for (const char* blackwell : {"B200", "B300", "GB200", "GB300"})
    if (name.find(blackwell) != std::string::npos) return 50;
  if (name.find("P100") != std::string::npos) return 20;
  return rates.nvlink_per_link;
}

// The most links that one GPU has: more in the sum over its peers means that a switch shares them.
constexpr int kMostLinksOfAGpu = 18;

}  // namespace

std::string_view link_class_name(LinkClass link) {
  constexpr std::array<std::string_view, kLinkClasses> names{"self",       "nvlink", "pcie",  "host",   "rail",
                                                             "cross_rail", "leaf",   "spine", "unknown"};
  return names[static_cast<std::size_t>(link)];
}

int Allocation::slots() const {
  return std::accumulate(nodes.begin(), nodes.end(), 0,
                         [](int sum, const AllocatedNode& node) { return sum + static_cast<int>(node.gpus.size()); });
}

int MachineGraph::add_link(double gigabytes_per_second) {
  capacities_.push_back(gigabytes_per_second * kGiga);
  return static_cast<int>(capacities_.size()) - 1;
}

MachineGraph::MachineGraph(const Allocation& allocation, const LinkRates& rates)
    : rail_optimised_(allocation.rail_optimised) {
  if (allocation.slots() == 0) throw UsageError("placement: the allocation has no GPU");
  for (const auto& node : allocation.nodes) add_node(node, rates);
  add_containers(allocation, rates);
  std::sort(notes_.begin(), notes_.end());
  notes_.erase(std::unique(notes_.begin(), notes_.end()), notes_.end());
}

void MachineGraph::add_node(const AllocatedNode& node, const LinkRates& rates) {
  const int number = static_cast<int>(nodes_.size()), first = static_cast<int>(slots_.size());
  nodes_.push_back({first, static_cast<int>(node.gpus.size()), 0, 0, true});
  std::map<std::string, int> nic_ids;
  std::string signature;
  for (const int index : node.gpus) {
    Slot slot;
    slot.node = number;
    slot.gpu = index;
    std::string nic_name;
    double nic_rate = rates.nic;
    bool far = false;
    if (!node.facts.gpus.empty()) {
      const auto position = node.facts.position_of(index);
      if (!position) throw UsageError("placement: GPU {} was granted on {}, which has no such GPU", index, node.name);
      slot.position = *position;
      const auto& gpu = node.facts.gpus[static_cast<std::size_t>(*position)];
      slot.rail = gpu.rail.value_or(-1);
      nic_name = gpu.nic.value_or("");
      far = gpu.near_nics && gpu.near_nics->empty() && !node.facts.nics.empty();
      const auto* nic = node.facts.find_nic(nic_name);
      if (nic != nullptr && nic->rate_gbps)
        nic_rate = *nic->rate_gbps / 8 * kNicEfficiency;
      else
        notes_.push_back(fmt::format("NIC rates are unknown: {} GB/s each is assumed", rates.nic));
      const auto model = gpu.name.value_or("");
      const auto known = std::find(models_.begin(), models_.end(), model);
      slot.model = static_cast<int>(known - models_.begin());
      if (known == models_.end()) models_.push_back(model);
    }
    const auto [it, fresh] = nic_ids.try_emplace(nic_name, static_cast<int>(nic_out_.size()));
    if (fresh) {
      nic_out_.push_back(add_link(nic_rate));
      add_link(nic_rate);
    }
    slot.nic = it->second;
    far_nic_.push_back(far ? 1 : 0);
    // A GPU that shares a switch with its NIC has a link that feeds it; ranks on CPUs meet in memory.
    bool near = slot.position < 0;
    if (!near) {
      const auto& gpu = node.facts.gpus[static_cast<std::size_t>(slot.position)];
      near = gpu.nic && gpu.path && *gpu.path <= topology::PathClass::kPxb;
    }
    const double pcie = near ? std::max(rates.pcie, kPcieOverNic * nic_rate) : rates.pcie;
    pcie_out_.push_back(add_link(pcie));
    add_link(pcie);
    signature += fmt::format("{}:{}:{}:{};", index, slot.model, slot.rail, it->second - nic_out_.size());
    slots_.push_back(slot);
  }
  nodes_.back().host_link = add_link(rates.host);
  add_pairs(node, first, rates);
  const auto& links = nodes_.back();
  for (int pair = 0; pair < links.count * links.count; ++pair) {
    const auto at = static_cast<std::size_t>(links.pair_base + pair);
    signature += static_cast<char>('a' + static_cast<int>(pair_kinds_[at]));
    if (pair_kinds_[at] == PairKind::kMesh)
      signature += fmt::format("{:.0f}", capacities_[static_cast<std::size_t>(pair_links_[at])] / kGiga);
  }
  signatures_.push_back(std::move(signature));
}

void MachineGraph::add_pairs(const AllocatedNode& node, int first, const LinkRates& rates) {
  const auto& facts = node.facts;
  const int count = static_cast<int>(node.gpus.size());
  nodes_.back().pair_base = static_cast<int>(pair_kinds_.size());
  for (int a = 0; a < count; ++a) {
    const int position = slots_[static_cast<std::size_t>(first + a)].position;
    double own = rates.nvlink_unknown;
    bool switched = false;
    if (position >= 0) {
      const auto& gpu = facts.gpus[static_cast<std::size_t>(position)];
      int sum = 0, most = 0;
      bool uncounted = false;
      if (gpu.nvlink)
        for (const auto& [peer, links] : *gpu.nvlink) {
          sum += links.value_or(0);
          most = std::max(most, links.value_or(0));
          uncounted = uncounted || !links;
        }
      switched = uncounted || sum > kMostLinksOfAGpu;
      if (most > 0 && switched && !uncounted) own = most * nvlink_rate(gpu, rates);
      if (uncounted)
        notes_.push_back(fmt::format("NVLink counts are unknown: {} GB/s per GPU is assumed", rates.nvlink_unknown));
      if (!gpu.nvlink) notes_.emplace_back("NVLink is unknown: GPUs of a node are taken to be joined by PCIe");
    }
    nvlink_out_.push_back(add_link(own));
    add_link(own);
    for (int b = 0; b < count; ++b) {
      PairKind kind = PairKind::kPcie;
      int link = -1;
      const int other = slots_[static_cast<std::size_t>(first + b)].position;
      if (position >= 0 && a != b) {
        const auto& gpu = facts.gpus[static_cast<std::size_t>(position)];
        const int peer = facts.gpus[static_cast<std::size_t>(other)].index;
        const auto joined = gpu.nvlink ? gpu.nvlink->find(peer) : std::map<int, std::optional<int>>::const_iterator{};
        if (gpu.nvlink && joined != gpu.nvlink->end()) {
          kind = switched ? PairKind::kSwitched : PairKind::kMesh;
          if (!switched) link = add_link(joined->second.value_or(1) * nvlink_rate(gpu, rates));
        } else {
          const auto path = facts.paths.at(position, other);
          if (path == topology::PathClass::kSys) kind = PairKind::kHost;
          if (!gpu.nvlink)
            kind = path == topology::PathClass::kSys ? PairKind::kHost : path ? PairKind::kPcie : PairKind::kUnknown;
        }
      }
      has_mesh_ = has_mesh_ || kind == PairKind::kMesh;
      pair_kinds_.push_back(kind);
      pair_links_.push_back(link);
    }
  }
}

void MachineGraph::add_containers(const Allocation& allocation, const LinkRates& rates) {
  const auto nodes = allocation.nodes.size();
  leaf_.assign(nodes, -1);
  rack_.assign(nodes, -1);
  switches_.resize(nodes);
  std::map<std::string, std::vector<int>> paths;
  if (allocation.fabric) paths = topology::switch_paths(*allocation.fabric);
  if (allocation.fabric && allocation.blocks_are_nvlink) {
    std::map<std::string, int> rack_of;
    for (std::size_t b = 0; b < allocation.fabric->blocks.size(); ++b)
      for (const auto& name : allocation.fabric->blocks[b].nodes) rack_of.try_emplace(name, static_cast<int>(b));
    for (std::size_t n = 0; n < nodes; ++n)
      if (const auto it = rack_of.find(allocation.nodes[n].name); it != rack_of.end()) rack_[n] = it->second;
  }
  std::map<std::string, int> racks;  // racks that the drivers of the nodes name
  for (std::size_t n = 0; n < nodes; ++n)
    for (const auto& gpu : allocation.nodes[n].facts.gpus)
      if (gpu.rack && rack_[n] < 0)
        rack_[n] = (1 << 20) + racks.try_emplace(*gpu.rack, static_cast<int>(racks.size())).first->second;
  // Uplinks carry what nodes could send, divided by the taper. Other jobs take their part of a switch: ours is that of
  // our nodes below it, and at least the part of the whole cluster that the allocation is.
  std::map<int, int> ids;  // fabric switch -> our id
  std::map<int, double> below;
  for (std::size_t n = 0; n < nodes; ++n) {
    const auto it = paths.find(allocation.nodes[n].name);
    if (it == paths.end()) continue;
    double sends = 0;
    std::set<int> counted;
    for (int s = 0; s < nodes_[n].count; ++s) {
      const int nic = slots_[static_cast<std::size_t>(nodes_[n].first_slot + s)].nic;
      if (counted.insert(nic).second)
        sends += capacities_[static_cast<std::size_t>(nic_out_[static_cast<std::size_t>(nic)])] / kGiga;
    }
    for (const int sw : it->second) {
      const int id = ids.try_emplace(sw, static_cast<int>(ids.size())).first->second;
      switches_[n].push_back(id);
      below[id] += sends;
    }
    leaf_[n] = switches_[n].front();
  }
  uplink_.resize(ids.size());
  std::map<int, double> all_below;  // nodes of the fabric below each switch
  double sends_in_all = 0;
  std::size_t attached = 0;
  for (const auto& [name, path] : paths)
    for (const int sw : path) all_below[sw] += 1;
  for (std::size_t n = 0; n < nodes; ++n)
    if (!switches_[n].empty()) ++attached;
  for (const auto& [sw, id] : ids)
    if (allocation.fabric->switches[static_cast<std::size_t>(sw)].level == 0) sends_in_all += below[id];
  const double sends_per_node = attached > 0 ? sends_in_all / static_cast<double>(attached) : 0,
               part = paths.empty() ? 1 : static_cast<double>(attached) / static_cast<double>(paths.size());
  for (const auto& [sw, id] : ids) {
    const int level = allocation.fabric->switches[static_cast<std::size_t>(sw)].level;
    const double taper = level == 0 ? rates.leaf_taper : rates.leaf_taper * rates.spine_taper;
    const double ours = std::max(below[id], part * all_below[sw] * sends_per_node) / taper;
    uplink_[static_cast<std::size_t>(id)] = add_link(ours);
    add_link(ours);
  }
  if (!ids.empty())
    notes_.push_back(
        fmt::format("the taper of switch uplinks is not told by the fabric: {} at leaves and {} at spines is assumed",
                    rates.leaf_taper, rates.spine_taper));
  // The tree: whole > switches from the top > rack > node. Nodes without a known leaf hang below the whole.
  root_ = 0;
  containers_.push_back({-1, 100, {}, {}});
  std::map<std::pair<int, int>, int> known;  // (parent, key) -> container
  std::vector<int> order(nodes);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    return topology::natural_less(allocation.nodes[static_cast<std::size_t>(a)].name,
                                  allocation.nodes[static_cast<std::size_t>(b)].name);
  });
  const auto below_container = [&](int parent, int key, int level) {
    const auto [it, fresh] = known.try_emplace({parent, key}, static_cast<int>(containers_.size()));
    if (fresh) {
      containers_.push_back({parent, level, {}, {}});
      containers_[static_cast<std::size_t>(parent)].children.push_back(it->second);
    }
    return it->second;
  };
  for (const int n : order) {
    int at = root_;
    const auto& path = switches_[static_cast<std::size_t>(n)];
    for (std::size_t s = path.size(); s-- > 0;) at = below_container(at, path[s], static_cast<int>(s) + 2);
    if (rack_[static_cast<std::size_t>(n)] >= 0)
      at = below_container(at, (1 << 28) + rack_[static_cast<std::size_t>(n)], 1);
    at = below_container(at, (1 << 29) + n, 0);
    for (int s = 0; s < nodes_[static_cast<std::size_t>(n)].count; ++s)
      containers_[static_cast<std::size_t>(at)].slots.push_back(nodes_[static_cast<std::size_t>(n)].first_slot + s);
  }
}

Route MachineGraph::route(int from, int to) const {
  Route route;
  if (from == to) return route;
  const Slot &a = slots_[static_cast<std::size_t>(from)], &b = slots_[static_cast<std::size_t>(to)];
  const auto out = [](const std::vector<int>& links, int i) { return links[static_cast<std::size_t>(i)]; };
  if (a.node == b.node) {
    const NodeLinks& node = nodes_[static_cast<std::size_t>(a.node)];
    const auto at =
        static_cast<std::size_t>(node.pair_base + (from - node.first_slot) * node.count + (to - node.first_slot));
    switch (pair_kinds_[at]) {
      case PairKind::kSwitched:
        route.kind = LinkClass::kNvlink;
        route.add(out(nvlink_out_, from));
        route.add(out(nvlink_out_, to) + 1);
        return route;
      case PairKind::kMesh:
        route.kind = LinkClass::kNvlink;
        route.add(pair_links_[at]);
        return route;
      case PairKind::kHost:
        route.add(node.host_link);
        [[fallthrough]];
      default:
        route.kind = pair_kinds_[at] == PairKind::kHost   ? LinkClass::kHost
                     : pair_kinds_[at] == PairKind::kPcie ? LinkClass::kPcie
                                                          : LinkClass::kUnknown;
        route.add(out(pcie_out_, from));
        route.add(out(pcie_out_, to) + 1);
        return route;
    }
  }
  const auto node_a = static_cast<std::size_t>(a.node), node_b = static_cast<std::size_t>(b.node);
  if (rack_[node_a] >= 0 && rack_[node_a] == rack_[node_b]) {
    route.kind = LinkClass::kNvlink;
    route.add(out(nvlink_out_, from));
    route.add(out(nvlink_out_, to) + 1);
    return route;
  }
  route.add(out(nic_out_, a.nic));
  route.add(out(nic_out_, b.nic) + 1);
  if (far_nic_[static_cast<std::size_t>(from)] != 0) route.add(nodes_[node_a].host_link);
  if (far_nic_[static_cast<std::size_t>(to)] != 0) route.add(nodes_[node_b].host_link);
  const bool rails_known = a.rail >= 0 && b.rail >= 0, same_rail = a.rail == b.rail;
  const auto &up = switches_[node_a], &down = switches_[node_b];
  // Where the tree above differs, uplinks are crossed on both sides, level by level.
  std::size_t shared = 0;
  const std::size_t depth = std::min(up.size(), down.size());
  while (shared < depth && up[up.size() - 1 - shared] == down[down.size() - 1 - shared]) ++shared;
  const bool known = !up.empty() && !down.empty();
  const auto climb = known ? up.size() - shared : 0, descend = known ? down.size() - shared : 0;
  for (std::size_t level = 0; level < climb; ++level) route.add(uplink_[static_cast<std::size_t>(up[level])]);
  for (std::size_t level = 0; level < descend; ++level) route.add(uplink_[static_cast<std::size_t>(down[level])] + 1);
  if (climb == 0 && descend == 0 && known && rail_optimised_ && rails_known && !same_rail) {
    route.add(uplink_[static_cast<std::size_t>(up[0])]);
    route.add(uplink_[static_cast<std::size_t>(down[0])] + 1);
  }
  if (rails_known && !same_rail)
    route.kind = LinkClass::kCrossRail;
  else if (climb > 1 || descend > 1)
    route.kind = LinkClass::kSpine;
  else if (climb == 1 || descend == 1)
    route.kind = LinkClass::kLeaf;
  else
    route.kind = rails_known ? LinkClass::kRail : LinkClass::kUnknown;
  return route;
}

double MachineGraph::pair_bandwidth(int from, int to) const {
  const Route way = route(from, to);
  double narrowest = 1e18;
  for (int i = 0; i < way.count; ++i)
    narrowest = std::min(narrowest, capacities_[static_cast<std::size_t>(way.links[static_cast<std::size_t>(i)])]);
  return narrowest;
}

}  // namespace railyard::launch
