// From a job file to a run that can start: evaluation, layout, run directory. Shared by run and submit.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/run_directory.hpp"
#include "lua/job.hpp"
#include "runtime/base/layout.hpp"

namespace railyard::launch {

struct RunRequest {
  std::filesystem::path job_file;
  std::vector<std::string> sets;       // --set
  std::vector<std::string> arguments;  // the job's `arg`
  std::optional<std::string> run_dir;  // --run-dir
  std::optional<std::string> site;     // --site
  int ranks = 0;                       // --ranks; 0: as the job and the place suggest
};

// Evaluates the job file and prints its warnings. In a batch step the file is Slurm's copy: messages then name the file
// that was submitted, and `require` looks beside that one.
[[nodiscard]] lua::EvaluatedJob evaluate(const RunRequest& request);

// How many ranks the job asks for by itself: the product of its degrees, with dp = "fill" as often as `devices` (0:
// once).
[[nodiscard]] int natural_ranks(const ParallelSpec& parallel, int devices);

// Opens the run directory of a job, below the current directory unless --run-dir says otherwise.
[[nodiscard]] std::unique_ptr<RunDirectory> open_run(const RunRequest& request, const lua::EvaluatedJob& job);

// Refuses a run whose time limit (`seconds_left`) ends before its next checkpoint. A step's time is the median of the
// steps that the run has made; before the first it is at least its floating-point operations at `flops` a second, what
// all ranks together can do at best (0: unknown).
void check_time_limit(const JobSpec& job, const std::filesystem::path& run_dir, std::optional<double> seconds_left,
                      double flops = 0.0);

}  // namespace railyard::launch
