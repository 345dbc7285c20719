// The keys of a job file, one table for checking, defaults and help (`railyard job keys` prints it).
#pragma once

#include "lua/schema/schema.hpp"

namespace railyard::lua {

const Schema& job_schema();

}  // namespace railyard::lua
