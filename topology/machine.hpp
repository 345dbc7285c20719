// Everything that was read: nodes and the fabric between them.
#pragma once

#include <optional>
#include <vector>

#include "topology/fabric.hpp"
#include "topology/node.hpp"

namespace railyard::topology {

struct Machine {
  std::vector<Node> nodes;
  std::optional<Fabric> fabric;
};

}  // namespace railyard::topology
