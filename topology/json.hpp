// `railyard topo --json`: writing and reading, schema 1. The keys are a contract; unknown values are null.
#pragma once

#include <string>

#include "runtime/base/json.hpp"
#include "topology/machine.hpp"

namespace railyard::topology {

[[nodiscard]] Json node_to_json(const Node& node);
[[nodiscard]] Json machine_to_json(const Machine& machine);

// Reads what machine_to_json wrote. GPU-to-NIC paths come back as far as the document tells them (near NICs and their
// class). UsageError names `name` and the key.
[[nodiscard]] Machine machine_from_json(const Json& document, const std::string& name);

}  // namespace railyard::topology
