// The keys of a site file, one table for checking and defaults.
#pragma once

#include "lua/schema/schema.hpp"

namespace railyard::lua {

// Without `partitions`, which hold these tables again: see lua/site.cpp.
const Schema& site_schema();

}  // namespace railyard::lua
