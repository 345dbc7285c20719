// A start's placement as it is written, shown to people and handed to the site's hooks.
#pragma once

#include <string>
#include <vector>

#include "launch/bootstrap/assign_ranks.hpp"
#include "launch/place/place.hpp"

namespace railyard::launch {

// "map" of placement-N.json: an entry per logical rank with node, gpu (null on CPUs), nic, cpus and coordinates, and
// "started_as", the rank of whoever started it.
[[nodiscard]] Json placement_map(const Layout& layout, const Allocation& allocation, const Placement& placement,
                                 const std::vector<int>& started_as, bool on_cpus);

// The slots by rank that a changed map asks for. UsageError, its message beginning with `name`, when it names a node or
// GPU that the run does not have, or one twice, or leaves a rank out. On CPUs, where places of a node are alike, a
// node's ranks take them in ascending order.
[[nodiscard]] std::vector<int> slots_of_map(const Json& document, const Allocation& allocation, const std::string& name,
                                            bool on_cpus);

// Fills record, table and summary of `result`.
void describe(const AssignmentInput& input, const Allocation& allocation, const Traffic& traffic,
              const LinkRates& rates, const Placement& placement, Json map, const std::vector<std::string>& notes,
              Assignment& result);

}  // namespace railyard::launch
