// A flow simulation of a placement, independent of the objective that chose it.
#pragma once

#include <utility>
#include <vector>

#include "launch/place/flows.hpp"
#include "launch/place/machine_graph.hpp"

namespace railyard::launch {

// Seconds until the last byte of each axis has arrived. All flows of an axis start together and share the links max-min
// fairly (progressive filling: Bertsekas and Gallager, Data Networks, 6.5.2); whenever a flow ends, rates are shared
// anew. Flows that would end within a fiftieth of the next end do so together.
[[nodiscard]] std::vector<std::pair<Axis, double>> simulate(const MachineGraph& graph,
                                                            const std::vector<AxisFlows>& flows,
                                                            const std::vector<int>& slot_of);

// The sum over the axes, which follow one another.
[[nodiscard]] double simulated_seconds(const MachineGraph& graph, const std::vector<AxisFlows>& flows,
                                       const std::vector<int>& slot_of);

}  // namespace railyard::launch
