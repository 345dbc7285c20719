// Finding runs, and who holds them.
#include "launch/run_sight.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <sstream>

#include "launch/process.hpp"
#include "launch/run_lock.hpp"
#include "runtime/base/error.hpp"
#include "runtime/base/job.hpp"
#include "runtime/base/layout.hpp"
#include "runtime/parallel/schedule.hpp"
#include "runtime/parallel/stages.hpp"
#include "runtime/report/series.hpp"

namespace railyard::launch {
namespace fs = std::filesystem;
namespace {

constexpr double kSlurmTimeout = 20.0;  // seconds for a busy controller to answer
constexpr std::int64_t kMostMicrobatches = 4096, kMostRows = 200000;

// Data-parallel degree: the job's, or what the placement's ranks leave for it.
std::int64_t data_parallel(const RunView& run, const ParallelSpec& parallel) {
  if (parallel.dp > 0) return parallel.dp;
  std::int64_t ranks = 0;
  const auto count = [&](const Json& value) {
    if (value.is_array() && !value.empty() && value.front().is_object())
      ranks = std::max(ranks, static_cast<std::int64_t>(value.size()));
  };
  count(run.placement);
  if (run.placement.is_object())
    for (const Json& member : run.placement) count(member);
  return ranks / (parallel.tp * parallel.cp * parallel.pp);
}

// KEY=VALUE words of `scontrol --oneliner`; values with blanks are cut at the first, which none of ours has.
std::map<std::string, std::string> scontrol_fields(const std::string& line) {
  std::map<std::string, std::string> fields;
  std::istringstream words(line);
  for (std::string word; words >> word;)
    if (const auto equals = word.find('='); equals != std::string::npos)
      fields.try_emplace(word.substr(0, equals), word.substr(equals + 1));
  return fields;
}

// The working directory may hold blanks: it ends where the next KEY= begins.
fs::path working_directory(const std::string& line) {
  const auto begin = line.find(" WorkDir=");
  if (begin == std::string::npos) return {};
  std::string value = line.substr(begin + 9);
  const auto equals = value.find('=');
  if (equals != std::string::npos) value = value.substr(0, value.find_last_of(' ', equals));
  while (!value.empty() && std::isspace(static_cast<unsigned char>(value.back())) != 0) value.pop_back();
  return value;
}

bool names_job(const fs::path& file, const char* key, const std::string& id) {
  try {
    if (!fs::exists(file)) return false;
    const Json document = read_json_file(file);
    return document.is_object() && document.contains(key) && document[key] == id;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

RunView sight_run(const fs::path& path, const RunViewOptions& options) {
  RunView run = view_run(path, options);
  const LockSight lock = look_at_lock(run.path / "lock");
  run.owner = lock.state == LockSight::State::kFree   ? RunView::Owner::kNone
              : lock.state == LockSight::State::kHeld ? RunView::Owner::kLive
                                                      : RunView::Owner::kDead;
  run.owner_text = lock.owner;
  return run;
}

std::optional<PipelineTimeline> simulated_timeline(const RunView& run) {
  try {
    if (!run.job.is_object()) return {};
    const JobSpec job = JobSpec::from_json(run.job);
    const ParallelSpec& parallel = job.parallel;
    const std::int64_t most = 1 << 16;
    for (const std::int64_t degree : {parallel.tp, parallel.cp, parallel.pp, parallel.vpp, job.train.micro_batch})
      if (degree < 1 || degree > most) return {};
    const std::int64_t dp = data_parallel(run, parallel);
    if (parallel.pp < 2 || dp < 1 || dp > most) return {};
    for (const std::int64_t layers : {job.model.layers, parallel.first_stage_layers, parallel.last_stage_layers})
      if (layers < 0 || layers > most) return {};
    const std::int64_t microbatches = job.train.global_batch / (job.train.micro_batch * dp);
    if (microbatches < 1 || microbatches > kMostMicrobatches ||
        microbatches * parallel.vpp * parallel.pp * 2 > kMostRows)
      return {};
    const int stages = static_cast<int>(parallel.pp), chunks = static_cast<int>(parallel.vpp);
    const Schedule schedule = schedule_interleaved(stages, chunks, static_cast<int>(microbatches));
    std::vector<double> forward, backward;
    for (const LayerRange& layers :
         split_layers(job.model.layers, stages * chunks, parallel.first_stage_layers, parallel.last_stage_layers)) {
      forward.push_back(static_cast<double>(layers.end - layers.begin));
      backward.push_back(2.0 * forward.back());
    }
    const Timeline simulated = simulate_schedule(schedule, forward, backward, 0.0);
    std::vector<double> seconds;
    for (const StepRecord& row : run.metrics.steps) seconds.push_back(row.step_s);
    const double usual = quantile(std::move(seconds), 0.5);
    const double scale = (std::isfinite(usual) && usual > 0.0 ? usual : 1.0) / simulated.length;
    PipelineTimeline timeline;
    timeline.stages = stages;
    for (const TimedRow& row : simulated.rows)
      timeline.rows.push_back({row.stage, operation_name(row.row.operation), row.row.microbatch, row.row.chunk,
                               row.begin * scale, row.end * scale});
    return timeline;
  } catch (const UsageError&) {
    return {};  // a job.json of another version, or one that says too little
  }
}

std::vector<fs::path> runs_below(const fs::path& folder) {
  std::vector<fs::path> runs;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (fs::exists(entry->path() / "job.json", ignored) || fs::exists(entry->path() / "metrics.jsonl", ignored))
      runs.push_back(entry->path());
  }
  std::sort(runs.begin(), runs.end());
  return runs;
}

bool looks_like_job_id(const std::string& word) {
  const auto digits = [](std::string_view text) {
    return !text.empty() && text.size() <= 12 &&
           std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  };
  const auto underscore = word.find('_');
  if (underscore == std::string::npos) return digits(word);
  return digits(std::string_view(word).substr(0, underscore)) && digits(std::string_view(word).substr(underscore + 1));
}

JobSight find_job(const std::string& id) {
  if (!find_program("scontrol"))
    throw UsageError("job {}: there is no scontrol here to ask where it runs; give its run directory instead", id);
  const CommandResult answer = run_command({"scontrol", "--oneliner", "show", "job", id}, kSlurmTimeout);
  if (answer.timed_out)
    throw RunError("job {}: Slurm did not answer within {:.0f} s; give its run directory instead", id, kSlurmTimeout);
  if (answer.status != 0) {
    std::string reason = answer.errors.substr(0, answer.errors.find('\n'));
    throw UsageError("job {}: Slurm does not know it (any more): {}; give its run directory instead", id, reason);
  }
  JobSight job;
  std::istringstream lines(answer.output);
  for (std::string line; std::getline(lines, line) && !job.run;) {
    const auto fields = scontrol_fields(line);
    const auto number = fields.find("JobId");
    if (number == fields.end()) continue;
    const auto value = [&](const char* key) { return fields.contains(key) ? fields.at(key) : std::string(); };
    if (job.state.empty() || value("JobState") == "RUNNING") {
      job.state = value("JobState");
      job.reason = value("Reason");
      job.folder = working_directory(line);
    }
    for (const fs::path& run : runs_below(working_directory(line) / "runs"))
      if (names_job(run / "lock", "job", number->second) || names_job(run / "why.json", "slurm_job", number->second))
        job.run = run;
  }
  return job;
}

}  // namespace railyard::launch
