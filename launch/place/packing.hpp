// Orders the slots of a machine so that cells of consecutive slots lie in as small containers as can be.
#pragma once

#include <vector>

#include "launch/place/machine_graph.hpp"

namespace railyard::launch {

// Packs slots into nested cells: cells of factors[0] slots inside nodes where they fit (the best joined GPUs together),
// factors[1] of those to a larger cell, and so on, each made in the lowest container that still holds enough; what is
// left over moves up and is joined there, from as few parts as possible. Returns the slots of the first outermost cell
// in order, as many as the product of the factors; fewer when the machine has not enough slots that may be joined (a
// cell of factors[0] slots takes GPUs of one model only).
[[nodiscard]] std::vector<int> pack_slots(const MachineGraph& graph, const std::vector<int>& factors);

}  // namespace railyard::launch
