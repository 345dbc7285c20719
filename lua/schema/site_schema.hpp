// The keys of a site file (docs/site-file.md), one table for checking, defaults and help.
#pragma once

#include "lua/schema/schema.hpp"

namespace railyard::lua {

// Without `partitions`, which hold these tables again: see lua/site.cpp.
const Schema& site_schema();

}  // namespace railyard::lua
