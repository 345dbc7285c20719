// Evaluates a site file, keeps it alive and calls its hooks.
#include "lua/site.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "lua/host/convert.hpp"
#include "lua/host/embedded.hpp"
#include "lua/schema/places.hpp"
#include "lua/schema/site_schema.hpp"
#include "lua/schema/suggestion.hpp"
#include "runtime/base/error.hpp"

namespace railyard::lua {
namespace {

const std::vector<std::string> kPartitionTables{"node", "fabric", "slurm", "paths", "setenv"};

// `base` with the values of `over` laid over it, table by table.
Json merged(Json base, const Json& over) {
  if (!base.is_object() || !over.is_object()) return over;
  for (const auto& [key, value] : over.items()) base[key] = base.contains(key) ? merged(base[key], value) : value;
  return base;
}

bool has_key(const Json& document, const std::string& path) {
  const Json* at = &document;
  for (const std::string& part : path_parts(path)) {
    if (!at->is_object()) return true;  // inside a list of the document's own
    const auto found = at->find(part);
    if (found == at->end()) return false;
    at = &*found;
  }
  return true;
}

// Checks each partition as the site with its tables laid over it; reports only what the partition itself says.
Json check_partitions(const Json& given, const Json& partitions, std::vector<Finding>& findings) {
  Json result = Json::object();
  if (!partitions.is_object()) {
    if (!partitions.is_array() || !partitions.empty())
      findings.push_back({"partitions", "expected a table of partitions, got " + told(partitions)});
    return result;
  }
  for (const auto& [name, partition] : partitions.items()) {
    const std::string path = join_path("partitions", name);
    if (!partition.is_object()) {
      findings.push_back({path, "expected a table, got " + told(partition)});
      continue;
    }
    for (const char* own : {"name", "match", "on_node", "on_map", "on_env"})
      if (partition.contains(own))
        findings.push_back(
            {join_path(path, own), "belongs to the site; a partition has node, fabric, slurm, paths and setenv"});
    std::vector<Finding> found;
    const Json whole = site_schema().check(merged(given, partition), {}, found);
    for (const Finding& finding : found)
      if (has_key(partition, finding.path)) findings.push_back({join_path(path, finding.path), finding.message});
    for (const std::string& table : kPartitionTables) result[name][table] = whole.value(table, Json());
  }
  return result;
}

// Lua has no null: where the answer leaves out what was null, or gives {} for an empty list, the argument's form comes
// back.
Json with_form_of(const Json& argument, Json answer) {
  if (argument.is_array() && answer.is_object() && answer.empty()) return Json::array();
  if (argument.is_object() && answer.is_object()) {
    for (const auto& [key, value] : argument.items()) {
      const auto found = answer.find(key);
      if (found == answer.end()) {
        if (value.is_null()) answer[key] = nullptr;
      } else {
        *found = with_form_of(value, std::move(*found));
      }
    }
  } else if (argument.is_array() && answer.is_array() && argument.size() == answer.size()) {
    for (std::size_t i = 0; i < answer.size(); ++i)
      answer[i] =
          argument[i].is_null() && answer[i] == false ? Json(nullptr) : with_form_of(argument[i], std::move(answer[i]));
  }
  return answer;
}

void add_values(const Json& value, const Json& given, const std::string& key, const Places& places,
                std::vector<SiteValue>& values) {
  if (value.is_object() && !value.empty()) {
    for (const auto& [name, inner] : value.items()) {
      const bool has = given.is_object() && given.contains(name);
      add_values(inner, has ? given.at(name) : Json(), join_path(key, name), places, values);
    }
    return;
  }
  values.push_back({key, value, given.is_null() ? "default" : places.of(key)});
}

bool is_variable_name(const std::string& name) {
  return !name.empty() && std::isdigit(static_cast<unsigned char>(name.front())) == 0 &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

}  // namespace

struct SiteFile::Parts {
  std::string file;
  Host host;
  Json given;
  Json resolved;
  std::unique_ptr<Places> places;
  std::vector<std::string> warnings;
};

SiteFile::SiteFile(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
SiteFile::~SiteFile() = default;
SiteFile::SiteFile(SiteFile&&) noexcept = default;
SiteFile& SiteFile::operator=(SiteFile&&) noexcept = default;

namespace {

Host site_host(const SiteOptions& options, const std::filesystem::path& folder) {
  HostOptions host;
  host.constructor = "site";
  host.limits = options.limits;
  host.environment = options.environment;
  host.print = options.print;
  if (!folder.empty()) host.module_folders.push_back(folder);
  return Host(std::move(host));
}

}  // namespace

SiteFile SiteFile::load_text(const std::string& text, const std::string& name, const SiteOptions& options) {
  const std::filesystem::path folder =
      std::filesystem::exists(name) ? std::filesystem::path(name).parent_path() : std::filesystem::path();
  auto parts =
      std::make_unique<Parts>(Parts{name, site_host(options, folder.empty() ? "." : folder), {}, {}, nullptr, {}});
  Evaluation evaluation;
  try {
    evaluation = parts->host.evaluate(name, text);
  } catch (const ValueError& error) {
    throw UsageError(Places(parts->host.sources(), "site", 0).word({error.path(), error.what()}));
  }
  parts->places = std::make_unique<Places>(parts->host.sources(), "site", evaluation.call_line);
  parts->given = std::move(evaluation.value);
  std::vector<Finding> findings;
  Json base = parts->given;
  const Json partitions = base.is_object() && base.contains("partitions") ? base["partitions"] : Json::object();
  if (base.is_object()) base.erase("partitions");
  parts->resolved = site_schema().check(base, {}, findings);
  Json checked = check_partitions(base, partitions, findings);
  parts->places->refuse(findings);
  parts->resolved["partitions"] = std::move(checked);
  parts->warnings = parts->places->repeated_keys();
  return SiteFile(std::move(parts));
}

SiteFile SiteFile::load(const std::filesystem::path& path, const SiteOptions& options) {
  return load_text(read_lua_file(path), path.string(), options);
}

const Json& SiteFile::resolved() const { return parts_->resolved; }
const std::string& SiteFile::file() const { return parts_->file; }
const std::vector<std::string>& SiteFile::warnings() const { return parts_->warnings; }
bool SiteFile::has_hook(const std::string& name) const { return parts_->resolved.value(name, false); }

Json SiteFile::for_partition(const std::string& partition) const {
  Json result = parts_->resolved;
  result.erase("partitions");
  const Json& partitions = parts_->resolved.at("partitions");
  if (const auto found = partitions.find(partition); found != partitions.end())
    for (const auto& [table, value] : found->items()) result[table] = value;
  return result;
}

std::vector<SiteValue> SiteFile::values() const {
  std::vector<SiteValue> values;
  for (const auto& [key, value] : parts_->resolved.items())
    if (key != "partitions")
      add_values(value, parts_->given.contains(key) ? parts_->given.at(key) : Json(), key, *parts_->places, values);
  // Of a partition only what it says itself: the rest stands above.
  if (parts_->given.contains("partitions"))
    for (const auto& [name, partition] : parts_->given.at("partitions").items())
      add_values(partition, partition, join_path("partitions", name), *parts_->places, values);
  return values;
}

Json SiteFile::changed(const std::string& hook, const Json& argument) {
  if (!has_hook(hook)) return argument;
  Json answer = parts_->host.call(hook, argument);
  if (answer.is_null()) return argument;
  if (!answer.is_object() && !answer.is_array())
    throw UsageError("{}: {} returned {}; it must return a table or nothing", parts_->places->of(hook), hook,
                     told(answer));
  return with_form_of(argument, std::move(answer));
}

Json SiteFile::on_node(const Json& topo) { return changed("on_node", topo); }
Json SiteFile::on_map(const Json& placement) { return changed("on_map", placement); }

std::map<std::string, std::string> SiteFile::on_env(const Json& rank) {
  std::map<std::string, std::string> result;
  if (!has_hook("on_env")) return result;
  const Json answer = parts_->host.call("on_env", rank);
  if (answer.is_null()) return result;
  const std::string place = parts_->places->of("on_env");
  if (!answer.is_object())
    throw UsageError("{}: on_env returned {}; it must return a table of variables, or nothing", place, told(answer));
  for (const auto& [name, value] : answer.items()) {
    if (!is_variable_name(name))
      throw UsageError("{}: on_env: \"{}\" is no name of an environment variable", place, printable(name));
    if (value.is_string() && is_plain_utf8(value.get_ref<const std::string&>()))
      result[name] = value.get<std::string>();
    else if (value.is_number_integer())
      result[name] = fmt::format("{}", value.get<std::int64_t>());
    else
      throw UsageError("{}: on_env: {} must be a string, got {}", place, name, told(value));
  }
  return result;
}

SiteFile find_site(const SiteSearch& search, const SiteOptions& options) {
  if (search.given) return SiteFile::load(*search.given, options);
  if (const auto named = search.environment("RAILYARD_SITE"); named && !named->empty())
    return SiteFile::load(*named, options);
  std::vector<std::filesystem::path> places;
  const auto config = search.environment("XDG_CONFIG_HOME"), home = search.environment("HOME");
  if (config && !config->empty())
    places.push_back(std::filesystem::path(*config) / "railyard/site.lua");
  else if (home && !home->empty())
    places.push_back(std::filesystem::path(*home) / ".config/railyard/site.lua");
  places.push_back(search.etc / "railyard/site.lua");
  if (search.prefix) places.push_back(*search.prefix / "etc/railyard/site.lua");
  for (const auto& place : places) {
    std::error_code unreadable;  // such as a home that this user may not enter: no site there
    if (std::filesystem::exists(place, unreadable)) return SiteFile::load(place, options);
  }
  if (const auto cluster = search.environment("SLURM_CLUSTER_NAME"); cluster && !cluster->empty()) {
    for (const EmbeddedFile& shipped : embedded_files()) {
      if (!shipped.name.starts_with("site/")) continue;
      SiteFile site = SiteFile::load_text(std::string(shipped.text), std::string(shipped.name), options);
      if (site.resolved().at("match").at("slurm_cluster") == *cluster) return site;
    }
  }
  return SiteFile::load_text(std::string(embedded_text("site/local.lua").value()), "site/local.lua", options);
}

std::vector<std::string> check_site(SiteFile& site) {
  std::vector<std::string> findings = site.warnings();
  const Json& resolved = site.resolved();
  std::map<std::string, std::string> origins;
  for (const SiteValue& value : site.values()) origins[value.key] = value.origin;
  const auto report = [&](const std::string& key, const std::string& what) {
    const auto origin = origins.find(key);
    findings.push_back(fmt::format("{}: {}: {}", origin == origins.end() ? site.file() : origin->second, key, what));
  };
  for (const char* name : {"runs", "cache"}) {
    const Json& path = resolved.at("paths").at(name);
    if (!path.is_string()) continue;
    std::error_code ignored;
    const auto& folder = path.get_ref<const std::string&>();
    if (!std::filesystem::is_directory(folder, ignored))
      report(fmt::format("paths.{}", name), folder + " is no folder on this machine; make it, or set another");
    else if (::access(folder.c_str(), W_OK) != 0)
      report(fmt::format("paths.{}", name), folder + " cannot be written by this user");
  }
  const Json& fabric = resolved.at("fabric");
  const bool own_libraries = fabric.at("kind") == "efa" || fabric.at("kind") == "slingshot";
  for (const auto& [name, value] : resolved.at("setenv").items())
    if (own_libraries && (name == "NCCL_IB_HCA" || name == "UCX_NET_DEVICES"))
      report("setenv." + name, fmt::format("must not be set on {}, whose NCCL plugin chooses the NICs",
                                           fabric.at("kind").get<std::string>()));
  if (fabric.at("kind") == "roce" && fabric.at("gid_index").is_null() &&
      !resolved.at("setenv").contains("NCCL_IB_GID_INDEX"))
    report("fabric.gid_index", "unknown on RoCE, where a wrong one makes connections time out; see show_gids");
  const Json rank{{"rank", 0},     {"local_rank", 0}, {"node", "node0"}, {"gpu", 0}, {"nic", "mlx5_0"}, {"rail", 0},
                  {"cpus", "0-7"}, {"tp", 0},         {"cp", 0},         {"dp", 0},  {"pp", 0}};
  try {
    (void)site.on_env(rank);
  } catch (const UsageError& error) {
    findings.push_back(fmt::format("{} (called with a rank of node0, GPU 0, NIC mlx5_0)", error.what()));
  }
  return findings;
}

}  // namespace railyard::lua
