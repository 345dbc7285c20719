// The nodes of the allocation this process runs in, each asked by one task of our own program.
#pragma once

#include <optional>

#include "topology/machine.hpp"

namespace railyard::launch {

// True inside a Slurm allocation, but not inside a task that collect_nodes() started.
[[nodiscard]] bool inside_allocation();

// Runs `railyard topo --this-node --json` once on every node of the allocation with srun, for at most `timeout`
// seconds, and reads the answers. A node that gives none is a node without devices and with a warning that says why.
// The fabric comes from `scontrol show topology` where it tells one. RunError when srun itself fails and no node
// answers.
[[nodiscard]] topology::Machine collect_nodes(double timeout);

}  // namespace railyard::launch
