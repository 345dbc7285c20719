// The site file that counts for this process, and its values where the job runs.
#pragma once

#include <optional>
#include <string>

#include "lua/site.hpp"

namespace railyard::launch {

// By the search order of lua::find_site; `given` is --site. Its warnings are not printed.
[[nodiscard]] lua::SiteFile load_site(const std::optional<std::string>& given);

// Values in the partition of this Slurm job (the site's own outside one); a relative fabric.topology becomes one beside
// the site file.
[[nodiscard]] Json site_values_here(const lua::SiteFile& site);

// Makes a --site given to this process count for the ranks that it starts, too (RAILYARD_SITE).
void pass_site_on(const std::optional<std::string>& given);

}  // namespace railyard::launch
