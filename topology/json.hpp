// `railyard topo --json`: writing and reading, schema 1. The keys are a contract; unknown values are null.
#pragma once

#include <string>

#include "runtime/base/json.hpp"
#include "topology/machine.hpp"

namespace railyard::topology {

[[nodiscard]] Json node_to_json(const Node& node);
[[nodiscard]] Json machine_to_json(const Machine& machine);

// Reads what machine_to_json wrote; paths between two NICs are not in it. Each GPU's "paths" names a class by device
// ("GPU1", "mlx5_0") and "bridges" the PCIe bridges between. UsageError names `name` and the key.
[[nodiscard]] Machine machine_from_json(const Json& document, const std::string& name);

}  // namespace railyard::topology
