// Puts the search together and turns slots into nodes, GPUs, NICs and CPUs.
#include "launch/place/place.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "launch/place/orders.hpp"
#include "launch/place/search.hpp"
#include "runtime/base/error.hpp"

namespace railyard::launch {
namespace {

// The part `index` of `count` of a CPU set: each run of consecutive CPUs is divided apart, so that the hardware threads
// of a core, which systems number in a second run, stay together.
topology::CpuSet share_of(const topology::CpuSet& cpus, std::size_t index, std::size_t count) {
  topology::CpuSet share;
  const auto members = cpus.members();
  for (std::size_t begin = 0; begin < members.size();) {
    auto end = begin + 1;
    while (end < members.size() && members[end] == members[end - 1] + 1) ++end;
    const auto length = end - begin;
    for (auto i = begin + length * index / count; i < begin + length * (index + 1) / count; ++i) share.add(members[i]);
    begin = end;
  }
  return share;
}

std::vector<RankPlace> places_of(const Allocation& allocation, const MachineGraph& graph,
                                 const std::vector<int>& slot_of) {
  std::vector<RankPlace> ranks(slot_of.size());
  std::map<std::pair<int, std::string>, std::vector<std::size_t>> same_cpus;  // node and near CPUs -> ranks, by GPU
  for (std::size_t rank = 0; rank < slot_of.size(); ++rank) {
    const Slot& slot = graph.slots()[static_cast<std::size_t>(slot_of[rank])];
    ranks[rank].node = slot.node;
    ranks[rank].gpu = slot.gpu;
    if (slot.position < 0) continue;
    const auto& gpu =
        allocation.nodes[static_cast<std::size_t>(slot.node)].facts.gpus[static_cast<std::size_t>(slot.position)];
    ranks[rank].nic = gpu.nic;
    if (gpu.cpus && !gpu.cpus->empty()) same_cpus[{slot.node, gpu.cpus->list()}].push_back(rank);
  }
  for (auto& [key, sharers] : same_cpus) {
    std::sort(sharers.begin(), sharers.end(),
              [&](std::size_t a, std::size_t b) { return ranks[a].gpu < ranks[b].gpu; });
    const auto cpus = *topology::CpuSet::parse_list(key.second);
    for (std::size_t i = 0; i < sharers.size(); ++i) {
      auto share = share_of(cpus, i, sharers.size());
      if (!share.empty()) ranks[sharers[i]].cpus = std::move(share);
    }
  }
  return ranks;
}

// What kept tensor parallelism from its domains, and what that costs.
void note_compromises(const MachineGraph& graph, const std::vector<AxisFlows>& flows, const Allocation& allocation,
                      Placement& placement) {
  const bool on_gpus =
      std::any_of(graph.slots().begin(), graph.slots().end(), [](const Slot& slot) { return slot.position >= 0; });
  for (const AxisFlows& axis : flows) {
    if ((axis.axis != Axis::kTp && axis.axis != Axis::kEtp) || !on_gpus) continue;
    int outside = 0;
    double best = 0, bytes = 0;
    std::map<std::string, int> kinds;
    for (const auto& group : axis.groups) {
      LinkClass worst = LinkClass::kSelf;
      for (std::size_t i = 0; i < group.size(); ++i) {
        const int from = placement.slot_of[static_cast<std::size_t>(group[i])],
                  to = placement.slot_of[static_cast<std::size_t>(group[(i + 1) % group.size()])];
        worst = std::max(worst, graph.route(from, to).kind);
        best = std::max(best, graph.pair_bandwidth(from, to));
      }
      if (worst > LinkClass::kNvlink) {
        ++outside;
        ++kinds[std::string(link_class_name(worst))];
      }
    }
    for (const Flow& flow : axis.flows) bytes = std::max(bytes, flow.bytes);
    if (outside == 0) continue;
    std::vector<std::string> words;
    for (const auto& [kind, count] : kinds) words.push_back(fmt::format("{} cross {} links", count, kind));
    const auto cost = std::find_if(placement.cost.axes.begin(), placement.cost.axes.end(),
                                   [&](const AxisCost& one) { return one.axis == axis.axis; });
    placement.notes.push_back(fmt::format(
        "{} of {} {} groups are not inside one NVLink domain ({}): {:.3g} s a step instead of {:.3g} s", outside,
        axis.groups.size(), axis_name(axis.axis), fmt::join(words, ", "), cost->seconds, bytes / best));
  }
  std::vector<bool> used(graph.slots().size());
  for (const int slot : placement.slot_of) used[static_cast<std::size_t>(slot)] = true;
  std::map<int, std::vector<int>> idle;
  for (std::size_t slot = 0; slot < used.size(); ++slot)
    if (!used[slot]) idle[graph.slots()[slot].node].push_back(graph.slots()[slot].gpu);
  if (!idle.empty()) {
    std::size_t count = 0;
    for (const auto& [node, gpus] : idle) count += gpus.size();
    const auto& [node, gpus] = *idle.begin();
    placement.notes.push_back(fmt::format("{} granted GPU{} idle: the layout has {} ranks (GPU {} of {}{})", count,
                                          count == 1 ? " stays" : "s stay", placement.slot_of.size(),
                                          fmt::join(gpus, ","), allocation.nodes[static_cast<std::size_t>(node)].name,
                                          idle.size() > 1 ? " and more" : ""));
  }
  placement.notes.insert(placement.notes.end(), graph.notes().begin(), graph.notes().end());
}

Placement finish(const Allocation& allocation, const MachineGraph& graph, const std::vector<AxisFlows>& flows,
                 std::vector<int> slot_of) {
  Placement placement;
  placement.cost = CostModel(graph, flows).detail(slot_of);
  placement.ranks = places_of(allocation, graph, slot_of);
  placement.slot_of = std::move(slot_of);
  note_compromises(graph, flows, allocation, placement);
  return placement;
}

}  // namespace

Placement place_in_order(const Layout& layout, const Allocation& allocation, const Traffic& traffic, RankOrder order,
                         const LinkRates& rates) {
  const MachineGraph graph(allocation, rates);
  return finish(allocation, graph, make_flows(layout, traffic),
                slots_in_order(allocation, graph, layout.ranks(), order));
}

Placement place_as(const Layout& layout, const Allocation& allocation, const Traffic& traffic, std::vector<int> slot_of,
                   const LinkRates& rates) {
  const MachineGraph graph(allocation, rates);
  RAILYARD_CHECK(slot_of.size() == static_cast<std::size_t>(layout.ranks()), "{} slots for {} ranks", slot_of.size(),
                 layout.ranks());
  return finish(allocation, graph, make_flows(layout, traffic), std::move(slot_of));
}

Placement place(const Layout& layout, const Allocation& allocation, const Traffic& traffic, const LinkRates& rates) {
  const MachineGraph graph(allocation, rates);
  const auto flows = make_flows(layout, traffic);
  PlacementSearch search(layout, graph, flows);
  for (const RankOrder order : {RankOrder::kSlurmBlock, RankOrder::kSlurmCyclic, RankOrder::kAlphabetical})
    search.consider(slots_in_order(allocation, graph, layout.ranks(), order));
  search.consider_nestings();
  search.consider_strips();
  search.consider_tilings();
  search.consider_all();
  if (!search.best())
    throw UsageError(
        "placement: every choice puts unlike GPUs into one tensor parallel group of {}; ask for nodes of one kind "
        "(sbatch --constraint), or set parallel.tp so that it divides the GPUs of each kind",
        layout.tp);
  search.improve();
  return finish(allocation, graph, flows, *search.best());
}

}  // namespace railyard::launch
