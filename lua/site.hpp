// A site file: what a cluster is and how it is used. Evaluated once, like a job file (lua/job.hpp); its hooks stay
// callable as long as the object lives. Values are JSON, with null for what is unknown.
//
//   return site {
//     name = "gpu-cluster",
//     node = { gpus = 8 }, fabric = { kind = "ib", rails = 8 },
//     partitions = { debug = { node = { gpus = 4 } } },
//     on_env = function(rank) return { UCX_NET_DEVICES = rank.nic .. ":1" } end,
//   }
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lua/host/host.hpp"

namespace railyard::lua {

struct SiteOptions {
  EnvironmentLookup environment = process_environment();
  Limits limits;
  std::function<void(std::string_view line)> print;  // takes what print() says; empty: standard error
};

// A value of the site and where it comes from, for people.
struct SiteValue {
  std::string key;  // "fabric.kind", "partitions.debug.node.gpus"
  Json value;
  std::string origin;  // "file:line", or "default"
};

class SiteFile {
 public:
  // UsageError, "file:line: key: what is wrong", when the file cannot be used.
  static SiteFile load(const std::filesystem::path& path, const SiteOptions& options = {});
  static SiteFile load_text(const std::string& text, const std::string& name, const SiteOptions& options = {});

  ~SiteFile();
  SiteFile(SiteFile&&) noexcept;
  SiteFile& operator=(SiteFile&&) noexcept;

  // Every key of the site (lua/schema/site_schema.cpp), and "partitions": for each its own node, fabric, slurm, paths
  // and setenv, with the site's values where it has none.
  [[nodiscard]] const Json& resolved() const;

  // resolved() as it holds in a partition, without "partitions": the site's own values when there is no such partition.
  [[nodiscard]] Json for_partition(const std::string& partition) const;

  [[nodiscard]] const std::string& file() const;  // as messages name it
  [[nodiscard]] std::vector<SiteValue> values() const;
  [[nodiscard]] const std::vector<std::string>& warnings() const;  // "file:line: what"

  // on_node(topo): `topo` is a node of `railyard topo --json`; the answer is it, changed or not. on_map(placement):
  // likewise. A null in the argument is nil in Lua; where the answer leaves out what was null, null comes back.
  // UsageError when the hook fails or answers with something else than a table or nothing.
  [[nodiscard]] Json on_node(const Json& topo);
  [[nodiscard]] Json on_map(const Json& placement);

  // on_env(rank): the environment variables that the site wants for a rank; empty without the hook.
  [[nodiscard]] std::map<std::string, std::string> on_env(const Json& rank);

  [[nodiscard]] bool has_hook(const std::string& name) const;

 private:
  struct Parts;
  explicit SiteFile(std::unique_ptr<Parts> parts);
  Json changed(const std::string& hook, const Json& argument);

  std::unique_ptr<Parts> parts_;
};

struct SiteSearch {
  std::optional<std::filesystem::path> given;             // --site
  EnvironmentLookup environment = process_environment();  // RAILYARD_SITE, XDG_CONFIG_HOME, HOME, SLURM_CLUSTER_NAME
  std::filesystem::path etc = "/etc";
  std::optional<std::filesystem::path> prefix;  // where the program is installed
};

// The site file that counts: --site, $RAILYARD_SITE, ~/.config/railyard/site.lua, /etc/railyard/site.lua,
// PREFIX/etc/railyard/site.lua, a shipped one whose match fits, the shipped local.lua. The first two must exist.
SiteFile find_site(const SiteSearch& search, const SiteOptions& options = {});

// What is doubtful about a site on this machine: "file:line: key: what", for `site --check`. Writes nothing.
std::vector<std::string> check_site(SiteFile& site);

}  // namespace railyard::lua
