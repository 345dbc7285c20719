// A run as `railyard report` and `railyard status` find it: by directory or Slurm job, with who holds it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runtime/report/run_view.hpp"

namespace railyard::launch {

// view_run (runtime/report), with the owner that its lock names.
RunView sight_run(const std::filesystem::path& path, const RunViewOptions& options = {});

// The timeline of one step as the job's schedule would run it, with a backward taken as two forwards and a step as long
// as the run's usual one. Nothing when the job has one pipeline stage, or does not say enough.
std::optional<PipelineTimeline> simulated_timeline(const RunView& run);

// Run directories directly below `folder`, by name.
std::vector<std::filesystem::path> runs_below(const std::filesystem::path& folder);

// Whether a word has the form of a Slurm job id: 1234 or 1234_5.
bool looks_like_job_id(const std::string& word);

// What Slurm knows of a job, and its run directory where one is found: below runs/ of the job's working directory, one
// whose lock or why.json names the job.
struct JobSight {
  std::string state, reason;     // PENDING, Resources
  std::filesystem::path folder;  // the job's working directory
  std::optional<std::filesystem::path> run;
};
// UsageError when there is no scontrol, or Slurm does not know the job (any more).
JobSight find_job(const std::string& id);

}  // namespace railyard::launch
