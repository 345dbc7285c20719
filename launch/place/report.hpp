// What `railyard plan --map` prints of a placement, and its parts of plan --json.
#pragma once

#include <string>

#include "launch/place/place.hpp"
#include "runtime/base/json.hpp"

namespace railyard::launch {

// One line a rank: rank, node, GPU, NIC, CPUs and coordinates.
[[nodiscard]] std::string rank_table(const Layout& layout, const Allocation& allocation, const Placement& placement);

// Per axis the share of bytes on NVLink, inside the host, on the own rail, off the rail, across leaves and across
// spines, the largest spread of a group over leaves and its seconds; beside the same for Slurm block, Slurm cyclic and
// alphabetical order. Then the notes.
[[nodiscard]] std::string placement_summary(const Layout& layout, const Allocation& allocation, const Traffic& traffic,
                                            const Placement& placement, const LinkRates& rates = {});

// "map" and "links" of plan --json.
[[nodiscard]] Json placement_map_json(const Layout& layout, const Allocation& allocation, const Placement& placement);
[[nodiscard]] Json placement_links_json(const Placement& placement);

}  // namespace railyard::launch
