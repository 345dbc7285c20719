// Who sends how much to whom: the edges of each axis of a layout between logical ranks.
#pragma once

#include <vector>

#include "launch/place/allocation.hpp"

namespace railyard::launch {

struct Flow {
  int from = 0, to = 0;  // logical ranks
  double bytes = 0;
};

struct AxisFlows {
  Axis axis = Axis::kTp;
  std::vector<Flow> flows;
  std::vector<std::vector<int>> groups;  // of ranks, in coordinate order
};

// Axes of degree 1 or without traffic are left out. Collectives are rings in coordinate order, as NCCL builds them in
// rank order; pp sends to both neighbours, with interleaved stages (vpp > 1) also around the end.
[[nodiscard]] std::vector<AxisFlows> make_flows(const Layout& layout, const Traffic& traffic);

// The coordinates of all ranks; Layout::coordinate once for each.
[[nodiscard]] std::vector<Coordinate> all_coordinates(const Layout& layout);

}  // namespace railyard::launch
