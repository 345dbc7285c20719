// Evaluates jobs and opens their runs.
#include "launch/prepare.hpp"

#include <algorithm>
#include <cstdio>

#include "launch/process.hpp"
#include "launch/slurm/control.hpp"
#include "runtime/base/error.hpp"
#include "runtime/model/rank_model.hpp"
#include "runtime/report/metrics_log.hpp"

namespace railyard::launch {
namespace fs = std::filesystem;

lua::EvaluatedJob evaluate(const RunRequest& request) {
  lua::JobOptions options;
  options.sets = request.sets;
  options.arguments = request.arguments;
  const auto job_id = environment_value("SLURM_JOB_ID");
  if (job_id && request.job_file.filename() == "slurm_script") {
    if (const auto script = submitted_script(show_job(*job_id))) {
      options.display_name = *script;
      options.module_folders.push_back(fs::path(*script).parent_path());
    } else if (const auto folder = environment_value("SLURM_SUBMIT_DIR")) {
      options.module_folders.emplace_back(*folder);
    }
  }
  lua::EvaluatedJob job = lua::evaluate_job(request.job_file, options);
  for (const std::string& warning : job.warnings) std::fprintf(stderr, "railyard: warning: %s\n", warning.c_str());
  return job;
}

int natural_ranks(const ParallelSpec& parallel, int devices) {
  const std::int64_t one = parallel.tp * parallel.cp * parallel.pp;
  const std::int64_t copies =
      parallel.dp > 0 ? parallel.dp : std::max<std::int64_t>(1, devices / std::max<std::int64_t>(1, one));
  constexpr std::int64_t kMostRanks = 1 << 24;
  if (one < 1 || one * copies > kMostRanks)
    throw UsageError("parallel: tp {} x cp {} x pp {} x dp {} ranks are out of range", parallel.tp, parallel.cp,
                     parallel.pp, copies);
  return static_cast<int>(one * copies);
}

std::unique_ptr<RunDirectory> open_run(const RunRequest& request, const lua::EvaluatedJob& job) {
  const auto task = environment_number("SLURM_ARRAY_TASK_ID");
  const fs::path path = choose_run_directory(request.run_dir, job.spec.name, task, fs::current_path());
  auto run = std::make_unique<RunDirectory>(path, job.resolved,
                                            job.sources.empty() ? std::string() : job.sources.front().text);
  if (!run->lock().taken_from().empty())
    std::fprintf(stderr, "railyard: took over %s from %s, which is gone\n", path.c_str(),
                 run->lock().taken_from().c_str());
  return run;
}

void check_time_limit(const JobSpec& job, const fs::path& run_dir, std::optional<double> seconds_left, double flops) {
  if (!seconds_left || job.checkpoint.every <= 0) return;
  const MetricsHistory history = read_metrics_tail(run_dir / "metrics.jsonl", 1 << 16);
  if (history.steps.empty()) {
    if (flops <= 0.0) return;
    ModelSpec model = job.model;
    model.vocab = std::max<std::int64_t>(model.vocab, 1);  // "auto" is not known yet: without the output head
    const double least = training_flops(model, job.train.global_batch) / flops;
    const auto until = static_cast<double>(std::min(job.checkpoint.every, job.train.iterations));
    if (least * until > *seconds_left)
      throw UsageError(
          "checkpoint.every: {} steps of at least {:.4g} s (their operations at the {:.4g} GFLOP/s that all ranks "
          "reach) take {:.0f} s, but the job's time limit ends in {:.0f} s: nothing would be saved; lower "
          "checkpoint.every or ask for more --time",
          job.checkpoint.every, least, flops * 1e-9, least * until, *seconds_left);
    return;
  }
  // The median: first steps and saves are slow.
  std::vector<double> times;
  for (const StepRecord& step : history.steps) times.push_back(step.step_s);
  std::nth_element(times.begin(), times.begin() + static_cast<long>(times.size() / 2), times.end());
  const double until_saved = times[times.size() / 2] * static_cast<double>(job.checkpoint.every);
  const bool finishes =
      times[times.size() / 2] * static_cast<double>(job.train.iterations - history.steps.back().step) < *seconds_left;
  if (until_saved > *seconds_left && !finishes)
    throw UsageError(
        "checkpoint.every: {} steps of {:.2f} s take {:.0f} s, but the job's time limit ends in {:.0f} s: nothing "
        "would be saved; "
        "lower checkpoint.every or ask for more --time",
        job.checkpoint.every, times[times.size() / 2], until_saved, *seconds_left);
}

}  // namespace railyard::launch
