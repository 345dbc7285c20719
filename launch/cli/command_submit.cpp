// railyard submit: everything that can be known before the queue is checked before the queue.
#include "launch/cli/command_submit.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "launch/install_prefix.hpp"
#include "launch/plan/plan.hpp"
#include "launch/plan/target.hpp"
#include "launch/prepare.hpp"
#include "launch/process.hpp"
#include "launch/slurm/submission.hpp"
#include "lua/site.hpp"
#include "runtime/base/error.hpp"
#include "runtime/data/dataset.hpp"

namespace railyard::launch {
namespace fs = std::filesystem;
namespace {

struct SubmitOptions {
  RunRequest request;
  std::string file, run_dir, array;
  std::vector<std::string> sweeps, sbatch;
  int chain = 1;
  bool dry_run = false;
};

std::string queue_script(const std::string& script, const std::string& after) {
  std::vector<std::string> words{"sbatch", "--parsable"};
  if (!after.empty()) words.push_back("--dependency=afterany:" + after);
  const auto answer = run_command(words, 60, nullptr, script);
  if (answer.timed_out) throw RunError("sbatch does not answer within 60 s; is Slurm's controller up? (scontrol ping)");
  if (answer.status == 127)
    throw UsageError("sbatch is not on PATH: submit from a login node, or see the script with --dry-run");
  if (answer.status != 0) throw UsageError("{}", answer.errors.substr(0, answer.errors.find_last_not_of('\n') + 1));
  // "ID" or "ID;CLUSTER"
  return answer.output.substr(0, answer.output.find_first_of(";\n"));
}

// What `railyard plan` would warn of, where the site file tells what its nodes are.
std::vector<std::string> plan_lines(lua::EvaluatedJob job, const lua::SiteFile& site) {
  if (job.spec.run.device == "cpu" || !site.resolved().at("node").at("gpus").is_number()) return {};
  try {
    if (job.spec.model.vocab == 0) {
      const auto tokenizer = data::job_tokenizer(job.spec, {});
      if (tokenizer == nullptr) return {};
      job.spec.model.vocab = tokenizer->vocab_size();
    }
    const PlanTarget target = plan_target(job, site, 0);
    if (!target.cluster.has_gpus) return {};
    const Planner planner(target.cluster, std::nullopt, target.threads);
    const Planner::Plan plan = planner.plan(job.spec, Layout::resolve(job.spec.parallel, target.ranks));
    return plan_warnings(planner, plan);
  } catch (const Error& error) {
    return {error.what()};
  }
}

int submit(SubmitOptions& options) {
  options.request.job_file = fs::absolute(options.file);
  const lua::EvaluatedJob job = evaluate(options.request);
  for (const auto& task : expand_sweeps(options.sweeps)) {
    // A sweep's values are checked now, not one by one in the queue.
    if (task.empty()) continue;
    RunRequest request = options.request;
    request.sets.insert(request.sets.end(), task.begin(), task.end());
    (void)evaluate(request);
  }
  if (const auto ranks = requested_ranks(job)) (void)Layout::resolve(job.spec.parallel, *ranks);
  const fs::path run_path = choose_run_directory(
      options.run_dir.empty() ? std::nullopt : std::optional(options.run_dir), job.spec.name, {}, fs::current_path());
  const lua::SiteFile site = lua::find_site({.prefix = install_prefix()});
  check_gpu_kind(job, options.sbatch, site.resolved());
  check_time_limit(job.spec, run_path, requested_time(job, options.sbatch));
  for (const std::string& line : plan_lines(job, site)) std::fprintf(stderr, "railyard: plan: %s\n", line.c_str());
  if (const auto warning = lead_warning(job, run_path))
    std::fprintf(stderr, "railyard: warning: %s\n", warning->c_str());
  for (const std::string& warning : submission_warnings(job))
    std::fprintf(stderr, "railyard: warning: %s\n", warning.c_str());

  Submission submission;
  submission.program = fs::read_symlink("/proc/self/exe");
  submission.job_file = options.request.job_file;
  submission.sets = options.request.sets;
  submission.sweeps = options.sweeps;
  submission.arguments = options.request.arguments;
  submission.options = options.sbatch;
  if (!options.run_dir.empty()) submission.run_dir = options.run_dir;
  if (!options.array.empty()) submission.array = options.array;
  submission.site = site.resolved();
  const bool several = submission.array || !options.sweeps.empty();
  // Tasks of an array have run directories of their own; their output stands together beside those.
  submission.log_folder = run_path / "log";
  if (several && submission.run_dir)
    throw UsageError("--run-dir with --array or --sweep: each task needs a directory of its own; leave --run-dir out");
  const std::string script = batch_script(submission, job);
  if (options.dry_run) {
    std::fputs(script.c_str(), stdout);
    return kExitDone;
  }
  // A job whose output folder is missing fails without a word.
  std::error_code error;
  fs::create_directories(submission.log_folder, error);
  if (error)
    throw UsageError("{}: cannot be made: {}; choose another --run-dir", submission.log_folder.string(),
                     error.message());
  std::string last;
  for (int i = 0; i < options.chain; ++i) {
    last = queue_script(script, last);
    std::printf("%s\n", last.c_str());
  }
  std::fprintf(stderr, "railyard: output in %s\n", submission.log_folder.c_str());
  return kExitDone;
}

}  // namespace

std::function<int()> define_submit(CLI::App& program) {
  auto* command = program.add_subcommand("submit", "Check a job and queue it with sbatch");
  auto options = std::make_shared<SubmitOptions>();
  command->add_option("JOB", options->file, "The job file (Lua); its #SBATCH lines are used")->required();
  command->add_option("--set", options->request.sets, "KEY.PATH=VALUE: changes a setting of the job; may be repeated")
      ->take_all()
      ->allow_extra_args(false);
  command
      ->add_option("--sweep", options->sweeps,
                   "KEY.PATH=V1,V2,...: an array of jobs, one for each value (or combination)")
      ->take_all()
      ->allow_extra_args(false);
  command->add_option("--array", options->array, "As for sbatch; each task has runs/NAME-TASK");
  command
      ->add_option("--chain", options->chain,
                   "Queue N jobs, each after the one before: for runs longer than the time limit")
      ->check(CLI::Range(1, 1000));
  command
      ->add_option("--sbatch", options->sbatch, "An option for sbatch, as --sbatch=--partition=debug; may be repeated")
      ->take_all()
      ->allow_extra_args(false);
  command->add_option("--run-dir", options->run_dir, "The run's directory; default runs/NAME");
  command->add_flag("--dry-run", options->dry_run, "Print the script instead of queueing it");
  command->add_option("ARG", options->request.arguments, "Handed to the job file as `arg`");
  command->footer(R"(Prints the job id. Examples:
  railyard submit job.lua --dry-run
  railyard submit job.lua --sbatch=--partition=debug --set train.iterations=100
  railyard submit job.lua --sweep train.lr.peak=1e-4,3e-4,1e-3
  railyard submit job.lua --chain 5)");
  return [=] { return submit(*options); };
}

}  // namespace railyard::launch
