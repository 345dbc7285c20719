// The keys of a job file (docs/job-file.md), one table for checking, defaults and help.
#pragma once

#include "lua/schema/schema.hpp"

namespace railyard::lua {

const Schema& job_schema();

}  // namespace railyard::lua
