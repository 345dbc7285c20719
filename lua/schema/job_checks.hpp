// What must hold between the keys of a job, as far as the job alone shows it: divisions, ranges that depend on other
// keys, and data that are complete.
#pragma once

#include <string>
#include <vector>

#include "lua/schema/schema.hpp"
#include "runtime/base/job.hpp"

namespace railyard::lua {

// Appends what is wrong, each under the key that the user would change.
void check_job(const JobSpec& job, std::vector<Finding>& findings);

// Things that are allowed but look like a mistake: "KEY: what".
std::vector<Finding> doubtful(const JobSpec& job);

}  // namespace railyard::lua
