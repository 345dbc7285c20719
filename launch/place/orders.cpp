// Slurm block, Slurm cyclic and alphabetical order.
#include "launch/place/orders.hpp"

#include <algorithm>
#include <numeric>

#include "runtime/base/error.hpp"

namespace railyard::launch {

std::string_view rank_order_name(RankOrder order) {
  switch (order) {
    case RankOrder::kSlurmBlock:
      return "Slurm block";
    case RankOrder::kSlurmCyclic:
      return "Slurm cyclic";
    case RankOrder::kAlphabetical:
      return "alphabetical";
  }
  return "";
}

std::vector<int> slots_in_order(const Allocation& allocation, const MachineGraph& graph, int ranks, RankOrder order) {
  const auto available = static_cast<int>(graph.slots().size());
  if (available < ranks)
    throw UsageError("placement: the layout has {} ranks, but the allocation only {} GPUs", ranks, available);
  std::vector<std::vector<int>> by_node(allocation.nodes.size());
  for (int slot = 0; slot < available; ++slot)
    by_node[static_cast<std::size_t>(graph.slots()[static_cast<std::size_t>(slot)].node)].push_back(slot);
  std::vector<std::size_t> nodes(allocation.nodes.size());
  std::iota(nodes.begin(), nodes.end(), std::size_t{0});
  if (order == RankOrder::kAlphabetical)
    std::stable_sort(nodes.begin(), nodes.end(),
                     [&](std::size_t a, std::size_t b) { return allocation.nodes[a].name < allocation.nodes[b].name; });
  std::vector<int> slots;
  if (order == RankOrder::kSlurmCyclic) {
    for (std::size_t turn = 0; static_cast<int>(slots.size()) < available; ++turn)
      for (const auto node : nodes)
        if (turn < by_node[node].size()) slots.push_back(by_node[node][turn]);
  } else {
    for (const auto node : nodes) slots.insert(slots.end(), by_node[node].begin(), by_node[node].end());
  }
  slots.resize(static_cast<std::size_t>(ranks));
  return slots;
}

}  // namespace railyard::launch
