// Finds the site file.
#include "launch/site_lookup.hpp"

#include <cstdlib>
#include <filesystem>

#include "launch/install_prefix.hpp"
#include "launch/process.hpp"

namespace railyard::launch {
namespace fs = std::filesystem;

lua::SiteFile load_site(const std::optional<std::string>& given) {
  lua::SiteSearch search;
  if (given) search.given = *given;
  search.prefix = install_prefix();
  return lua::find_site(search);
}

Json site_values_here(const lua::SiteFile& site) {
  Json values = site.for_partition(environment_value("SLURM_JOB_PARTITION").value_or(""));
  Json& topology = values.at("fabric").at("topology");
  if (topology.is_string() && topology != "slurm") {
    const fs::path file = topology.get<std::string>();
    if (file.is_relative()) topology = (fs::path(site.file()).parent_path() / file).string();
  }
  return values;
}

void pass_site_on(const std::optional<std::string>& given) {
  if (given) setenv("RAILYARD_SITE", fs::absolute(*given).c_str(), 1);
}

}  // namespace railyard::launch
