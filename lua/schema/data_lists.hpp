// Megatron's spellings of data lists, turned into ours before the schema sees them.
#pragma once

#include <vector>

#include "lua/schema/schema.hpp"

namespace railyard::lua {

// In a job's table as it was given:
// - data.train, valid and test may be Megatron's flat lists, { 0.3, "web", "0.7", "code" } (weights and prefixes in
//   turn) or { "web", "code" }; they become lists of { path, weight }. Weights are taken where the count is even and
//   some item in their place is a number, as Megatron does.
// - data.per_split names a JSON file as --per-split-data-args-path takes it: {"train": [...], "valid": [...],
//   "test": [...]}, each a flat list or null. The lists are read into data.train, valid and test, and the key goes.
// Appends what is wrong to `findings`.
void spell_out_data_lists(Json& job, std::vector<Finding>& findings);

}  // namespace railyard::lua
