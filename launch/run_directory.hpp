// A run's directory: job.lua, job.json, placement-N.json, metrics.jsonl, ckpt/, log/, why.json and the lock.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/run_lock.hpp"
#include "runtime/base/json.hpp"

namespace railyard::launch {

// `option` (--run-dir) when given, else runs/NAME, in an array runs/NAME-TASK, below `folder`. UsageError when the name
// cannot be a folder's.
std::filesystem::path choose_run_directory(const std::optional<std::string>& option, const std::string& name,
                                           std::optional<long> array_task, const std::filesystem::path& folder);

// What keeps the run of `before` from going on as `now` (two resolved jobs): changed model, data order, seed or batch,
// as "train.seed: 1 -> 2"; empty when it may.
std::vector<std::string> incompatible_changes(const Json& before, const Json& now);

class RunDirectory {
 public:
  // Makes or opens `path` and locks it. An existing run that has trained is continued: UsageError when `job` (resolved)
  // differs in what a run may not change. `job_text` is the job file as written by the user.
  // UsageError also when the directory cannot be written or belongs to a live run.
  RunDirectory(std::filesystem::path path, const Json& job, const std::string& job_text);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  // Number of this start, from 1.
  [[nodiscard]] int start() const { return start_; }
  [[nodiscard]] const RunLock& lock() const { return *lock_; }
  // Counts another start (after a rank died) and returns its number.
  int next_start();
  // Writes placement-N.json of this start.
  void write_placement(const Json& placement) const;

 private:
  std::filesystem::path path_;
  std::unique_ptr<RunLock> lock_;
  int start_ = 1;
};

}  // namespace railyard::launch
