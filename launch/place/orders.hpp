// The rank orders of other launchers, as slots by rank.
#pragma once

#include <vector>

#include "launch/place/machine_graph.hpp"
#include "launch/place/place.hpp"

namespace railyard::launch {

// `ranks` slots; UsageError when there are fewer.
[[nodiscard]] std::vector<int> slots_in_order(const Allocation& allocation, const MachineGraph& graph, int ranks,
                                              RankOrder order);

}  // namespace railyard::launch
