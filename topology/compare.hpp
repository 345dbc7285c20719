// Nodes that are alike, and what is odd about the others.
#pragma once

#include <string>
#include <vector>

#include "topology/machine.hpp"

namespace railyard::topology {

struct NodeGroup {
  std::vector<int> nodes;                // positions in Machine::nodes
  std::vector<std::string> differences;  // from the first group; empty for the first
};

// Groups nodes whose devices, links, paths and states are the same; names, addresses of ports and UUIDs do not matter.
// The first group is the largest (of equally large ones the one with more active NICs and GPUs): the others are odd.
[[nodiscard]] std::vector<NodeGroup> group_alike(const std::vector<Node>& nodes);

// Adds to each odd node a warning per difference.
void warn_odd_nodes(Machine& machine);

}  // namespace railyard::topology
