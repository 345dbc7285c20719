// A run directory as its readers see it: whatever of it is there and readable, and a line for each thing that is not.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/json.hpp"
#include "runtime/report/metrics_log.hpp"
#include "runtime/report/timeline.hpp"

namespace railyard {

struct RunView {
  std::filesystem::path path;
  std::string name;      // the job's, else the directory's
  Json job;              // job.json; null when it is missing or broken
  std::string job_text;  // job.lua
  Json placement;        // the newest placement-N.json, null when there is none
  int starts = 0;        // its N
  Json why;              // why.json, null when there is none
  MetricsHistory metrics;
  std::optional<PipelineTimeline> timeline;  // log/timeline.json
  std::vector<std::string> problems;         // what could not be read, a line each

  // Who holds the run directory, filled in by the caller (the lock is the launcher's). "live" means that it trains now.
  enum class Owner { kNone, kLive, kDead };
  Owner owner = Owner::kNone;
  std::string owner_text;  // "anna on node3 (process 4711, Slurm job 12)"

  // From job.json; 0 when it is not known.
  [[nodiscard]] std::int64_t iterations() const;
  // A number of job.json by its path, such as "/train/global_batch"; nothing when there is none.
  [[nodiscard]] std::optional<double> number(const std::string& pointer) const;
  // The same as a whole number; 0 when it is none above 0.
  [[nodiscard]] std::int64_t integer(const std::string& pointer) const;
  // "running", "done", "stopped", "failed", "died", "not started", ...: one word, and a sentence that says more.
  [[nodiscard]] std::string state() const;
  [[nodiscard]] std::string state_text() const;
  // Steps of checkpoint folders (checkpoint.dir/step-N), ascending, verified or not.
  [[nodiscard]] std::vector<std::int64_t> checkpoints() const;
};

struct RunViewOptions {
  bool whole = true;  // all of metrics.jsonl, job.lua and the timeline; else the metrics' tail alone
};

// UsageError when `path` is no directory, or holds nothing of a run.
RunView view_run(const std::filesystem::path& path, const RunViewOptions& options = {});

}  // namespace railyard
