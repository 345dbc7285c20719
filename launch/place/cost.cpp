// Evaluates placements.
#include "launch/place/cost.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace railyard::launch {
namespace {

// Weight of the mean load against the busiest link: breaks ties towards short ways, too small to buy a busier link.
constexpr double kTieBreak = 1e-3;
// Time grows with this power of the leaves that the most spread group touches: Arnold (arXiv 2509.15940) reports 1.67
// times less spread and 10.6 % more throughput, and ln 1.106 / ln 1.67 is 0.2.
constexpr double kSpreadPower = 0.2;

}  // namespace

CostModel::CostModel(const MachineGraph& graph, const std::vector<AxisFlows>& flows)
    : graph_(graph), flows_(flows), load_(graph.capacities().size()) {
  std::map<int, int> numbers;
  for (std::size_t slot = 0; slot < graph.slots().size(); ++slot) {
    const int leaf = graph.leaf_of(static_cast<int>(slot));
    leaf_number_.push_back(leaf < 0 ? -1 : numbers.try_emplace(leaf, static_cast<int>(numbers.size())).first->second);
  }
  leaves_ = static_cast<int>(numbers.size());
  seen_.assign(numbers.size(), 0);
}

int CostModel::most_leaves(const std::vector<int>& slot_of) {
  int most = 0;
  for (const AxisFlows& axis : flows_)
    for (const auto& group : axis.groups) {
      ++stamp_;
      int touched = 0;
      for (const int rank : group) {
        const int leaf = leaf_number_[static_cast<std::size_t>(slot_of[static_cast<std::size_t>(rank)])];
        if (leaf < 0 || seen_[static_cast<std::size_t>(leaf)] == stamp_) continue;
        seen_[static_cast<std::size_t>(leaf)] = stamp_;
        ++touched;
      }
      most = std::max(most, touched);
    }
  return most;
}

double CostModel::broken_cliques(const std::vector<int>& slot_of) const {
  int broken = 0, groups = 0;
  for (const AxisFlows& axis : flows_) {
    if (axis.axis != Axis::kTp && axis.axis != Axis::kEtp) continue;
    for (const auto& group : axis.groups) {
      bool joined = false, apart = false;
      for (std::size_t i = 0; i < group.size(); ++i)
        for (std::size_t j = i + 1; j < group.size(); ++j) {
          const int a = slot_of[static_cast<std::size_t>(group[i])], b = slot_of[static_cast<std::size_t>(group[j])];
          const bool nvlink = graph_.route(a, b).kind == LinkClass::kNvlink;
          joined = joined || nvlink;
          apart = apart || !nvlink;
        }
      broken += joined && apart ? 1 : 0;
      ++groups;
    }
  }
  return groups > 0 ? static_cast<double>(broken) / groups : 0;
}

double CostModel::objective(const std::vector<int>& slot_of) {
  const auto& capacities = graph_.capacities();
  double total = 0, mean = 0;
  for (const AxisFlows& axis : flows_) {
    double busiest = 0;
    for (const Flow& flow : axis.flows) {
      const Route route =
          graph_.route(slot_of[static_cast<std::size_t>(flow.from)], slot_of[static_cast<std::size_t>(flow.to)]);
      for (int i = 0; i < route.count; ++i) {
        const auto link = static_cast<std::size_t>(route.links[static_cast<std::size_t>(i)]);
        if (load_[link] == 0) touched_.push_back(static_cast<int>(link));
        load_[link] += flow.bytes;
        mean += flow.bytes / capacities[link];
      }
    }
    for (const int link : touched_) {
      busiest = std::max(busiest, load_[static_cast<std::size_t>(link)] / capacities[static_cast<std::size_t>(link)]);
      load_[static_cast<std::size_t>(link)] = 0;
    }
    touched_.clear();
    total += busiest;
  }
  if (leaves_ > 1) total *= std::pow(std::max(1, most_leaves(slot_of)), kSpreadPower);
  if (graph_.has_mesh()) total *= 1 + broken_cliques(slot_of);
  return total + kTieBreak * mean / static_cast<double>(slot_of.size());
}

PlacementCost CostModel::detail(const std::vector<int>& slot_of) const {
  PlacementCost cost;
  CostModel scratch(graph_, flows_);
  cost.objective = scratch.objective(slot_of);
  const auto& capacities = graph_.capacities();
  for (const AxisFlows& axis : flows_) {
    AxisCost one;
    one.axis = axis.axis;
    std::vector<double> load(capacities.size());
    for (const Flow& flow : axis.flows) {
      const Route route =
          graph_.route(slot_of[static_cast<std::size_t>(flow.from)], slot_of[static_cast<std::size_t>(flow.to)]);
      one.bytes[static_cast<std::size_t>(route.kind)] += flow.bytes;
      for (int i = 0; i < route.count; ++i)
        load[static_cast<std::size_t>(route.links[static_cast<std::size_t>(i)])] += flow.bytes;
    }
    for (std::size_t link = 0; link < load.size(); ++link)
      one.seconds = std::max(one.seconds, load[link] / capacities[link]);
    for (const auto& group : axis.groups) {
      std::set<int> leaves;
      int crossings = 0;
      for (std::size_t i = 0; i < group.size(); ++i) {
        const int leaf = graph_.leaf_of(slot_of[static_cast<std::size_t>(group[i])]);
        if (leaf >= 0) leaves.insert(leaf);
        const bool last = i + 1 == group.size();
        if (last && axis.axis == Axis::kPp) continue;
        const int next = graph_.leaf_of(slot_of[static_cast<std::size_t>(group[last ? 0 : i + 1])]);
        crossings += leaf >= 0 && next >= 0 && next != leaf ? 1 : 0;
      }
      one.most_leaves = std::max(one.most_leaves, static_cast<int>(leaves.size()));
      one.most_crossings = std::max(one.most_crossings, crossings);
    }
    cost.seconds += one.seconds;
    cost.axes.push_back(one);
  }
  return cost;
}

}  // namespace railyard::launch
