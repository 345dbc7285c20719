// A job file, evaluated once and checked: the front door of this room.
//
// The file is Lua 5.4 that ends with `return job { ... }`. It runs in a sandbox (lua/host/host.hpp): env.NAME, arg,
// require of railyard's modules and of files beside the job, no access to the system, limits on instructions and
// memory. Its table is checked against one schema (lua/schema/job_schema.cpp); the result names every key.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lua/host/host.hpp"
#include "runtime/base/job.hpp"

namespace railyard::lua {

struct JobOptions {
  std::vector<std::string> sets;       // `--set`: "key.path=value", applied in order to the returned table
  std::vector<std::string> arguments;  // the file's global `arg`
  EnvironmentLookup environment = process_environment();
  std::vector<std::filesystem::path> module_folders;  // where `require` looks, after the folder of the file itself
  std::string display_name;   // how messages name the file; empty: its path (sbatch runs a spooled copy)
  bool require_built = true;  // refuse features that are known but not built; a planner may ask without
  Limits limits;
  std::function<void(std::string_view line)> print;  // takes what print() says; empty: standard error
};

struct EvaluatedJob {
  Json resolved;  // job.json: exactly JobSpec::to_json() of `spec`
  JobSpec spec;
  std::filesystem::path path;                                     // of the file
  std::vector<SourceText> sources;                                // the file, then the files that it required
  std::vector<std::string> warnings;                              // "file:line: key: what", none of which stops a run
  std::map<std::string, std::optional<std::string>> environment;  // variables that the file read, and their values
  std::vector<std::string> arguments;                             // as given
  std::vector<SbatchOption> sbatch;                               // the `#SBATCH` lines that sbatch sees
};

// Evaluates the file. UsageError, one line for each thing that is wrong, "file:line: key: what is wrong".
EvaluatedJob evaluate_job(const std::filesystem::path& path, const JobOptions& options = {});

// The same for a text at hand, shown as `name`; `require` finds files in options.module_folders only.
EvaluatedJob evaluate_job_text(const std::string& text, const std::string& name, const JobOptions& options = {});

}  // namespace railyard::lua
