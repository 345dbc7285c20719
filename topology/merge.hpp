// Puts several sources together: facts about one machine are merged, different machines stand side by side.
#pragma once

#include <vector>

#include "topology/machine.hpp"

namespace railyard::topology {

// True when both may describe one machine: equal names; or, where a name is unknown, shared PCI addresses of GPUs; or,
// where addresses are unknown too, as many GPUs. A source without GPUs (a list of NICs) matches by name only.
[[nodiscard]] bool may_be_same_machine(const Node& a, const Node& b);

// Adds what `other` knows to `node`: unknown values are filled, differing ones are kept and become warnings that name
// both sources. GPUs match by PCI address, else by index; NICs by address, else by name. Rails are assigned anew.
void merge_node(Node& node, const Node& other);

// Merges machines in the given order. Nodes of one input are never merged with each other.
[[nodiscard]] Machine merge_machines(std::vector<Machine> machines);

}  // namespace railyard::topology
