// The batch script that `railyard submit` hands to sbatch.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lua/job.hpp"

namespace railyard::launch {

struct Submission {
  std::filesystem::path program;       // the railyard to run
  std::filesystem::path job_file;      // absolute
  std::filesystem::path log_folder;    // absolute
  std::vector<std::string> sets;       // for every task
  std::vector<std::string> sweeps;     // "key=v1,v2,...": one array task for each combination
  std::vector<std::string> arguments;  // of the job file
  std::optional<std::string> run_dir;
  std::optional<std::string> array;  // as for sbatch
  std::vector<std::string> options;  // for sbatch, such as "--partition=debug"; stronger than the job's own lines
  Json site;                         // values of the site file; null: none
};

// Every combination of the sweeps' values, as lists of "key=value". UsageError when one is malformed.
[[nodiscard]] std::vector<std::vector<std::string>> expand_sweeps(const std::vector<std::string>& sweeps);

// The script: the job's #SBATCH lines, ours where it has none (name, output, --open-mode=append), the caller's, and the
// command. Words are quoted for the shell.
[[nodiscard]] std::string batch_script(const Submission& submission, const lua::EvaluatedJob& job);

// Refuses a kind of GPU (--gpus-per-node=h200:8, --gres=gpu:h200:8) that the site's node.gpu and those of its
// partitions do not name. UsageError with what the site has; silent where the site does not tell.
void check_gpu_kind(const lua::EvaluatedJob& job, const std::vector<std::string>& options, const Json& site);

// Seconds of sbatch's --time ("90", "90:00", "1:30:00", "2-0", "2-1:30", ...); nothing when it is no time.
[[nodiscard]] std::optional<double> parse_time_limit(const std::string& text);
// The job's, by its options or the caller's.
[[nodiscard]] std::optional<double> requested_time(const lua::EvaluatedJob& job,
                                                   const std::vector<std::string>& options);

// A line when the lead of --signal is shorter than 1.5 times the longest of the run's last saves (log/saves.jsonl).
[[nodiscard]] std::optional<std::string> lead_warning(const lua::EvaluatedJob& job,
                                                      const std::filesystem::path& run_dir);

// What the job asks of Slurm that will hurt, one line each (no --signal beside --time, ...).
[[nodiscard]] std::vector<std::string> submission_warnings(const lua::EvaluatedJob& job);

// Ranks that the job's options ask for, where they tell (nodes x tasks or GPUs per node).
[[nodiscard]] std::optional<int> requested_ranks(const lua::EvaluatedJob& job);

// The value of a job's `#SBATCH --NAME=VALUE` ("" without one), the last where there are several; and its count, where
// it is one ("8", "gpu:h100:8").
[[nodiscard]] std::optional<std::string> sbatch_option(const lua::EvaluatedJob& job, std::string_view name);
[[nodiscard]] std::optional<int> sbatch_number(const lua::EvaluatedJob& job, std::string_view name);

}  // namespace railyard::launch
