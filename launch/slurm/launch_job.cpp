// Launches within an allocation.
#include "launch/slurm/launch_job.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <map>

#include "launch/install_prefix.hpp"
#include "launch/local/mpirun.hpp"
#include "launch/slurm/control.hpp"
#include "launch/slurm/step.hpp"
#include "launch/slurm/step_nodes.hpp"
#include "launch/slurm/submission.hpp"
#include "launch/supervisor.hpp"
#include "lua/site.hpp"
#include "runtime/base/error.hpp"

namespace railyard::launch {
namespace {

// A request to stop is preemption when Slurm says so, and the time limit's when that is near.
void name_stop(Ending& ending, const std::map<std::string, std::string>& job, std::optional<double> left) {
  if (ending.reason != Reason::kSignal) return;
  constexpr double kNear = 180.0;  // leads of --signal are about two minutes, and Slurm may be a minute early
  if (was_preempted(job)) {
    ending.reason = Reason::kPreempted;
    ending.detail = "preempted by a job of higher priority; saved";
  } else if (left && *left < kNear) {
    ending.reason = Reason::kTimeLimit;
    ending.detail = fmt::format("the job's time limit ends in {:.0f} s; saved", *left);
  }
}

}  // namespace

void requeue_if_wanted(const JobSpec& job, int exit_code, int stop_signal) {
  const auto job_id = environment_value("SLURM_JOB_ID");
  if (exit_code != kExitStopped || !job_id || !job.run.requeue) return;
  if (!should_requeue(show_job(*job_id), stop_signal)) return;
  std::fprintf(stderr, "railyard: saved; asking Slurm to requeue job %s\n", job_id->c_str());
  requeue(*job_id);
}

int launch_in_allocation(const RunRequest& request, const lua::EvaluatedJob& job,
                         const std::vector<std::string>& program) {
  const Environment inherited = current_environment();
  const SlurmAllocation allocation = read_allocation(inherited);
  const int spares = static_cast<int>(job.spec.run.spare_nodes);
  const StepShape shape =
      shape_step(without_spares(allocation, spares), request.ranks, natural_ranks(job.spec.parallel, 0));
  (void)Layout::resolve(job.spec.parallel, shape.ranks);
  const int nodes = static_cast<int>(allocation.nodes.size()) - spares;
  const lua::SiteFile site = lua::find_site({.prefix = install_prefix()});
  check_gpu_kind(job, {}, site.resolved());
  const auto container = step_container(site.for_partition(environment_value("SLURM_JOB_PARTITION").value_or("")));
  const SrunAbilities srun = probe_srun();
  const bool by_srun = srun.pmix().has_value() || shape.ranks == 1;
  const std::optional<Mpirun> mpirun = by_srun ? std::nullopt : std::optional(find_mpirun());
  if (mpirun)
    std::fprintf(stderr, "railyard: this Slurm's srun has no PMIx: starting the ranks with %s\n", mpirun->path.c_str());

  // Before any process starts or thread is made: all of them must hold the signals back.
  SignalWatch watch;
  const auto run = open_run(request, job);
  StepNodes pool(allocation, nodes,
                 {.run_dir = run->path(), .gpus_needed = job.spec.run.device == "cuda" ? shape.per_node : 0},
                 inherited);
  pool.check_first();
  check_time_limit(job.spec, run->path(), seconds_left(allocation.job_id),
                   job.spec.run.device == "cpu" ? shape.ranks * shape.cpus_per_rank * pool.fastest_core() : 0.0);
  std::fprintf(stderr, "railyard: Slurm job %s%s: %d ranks on %d node%s, %d CPU%s each; run directory %s\n",
               allocation.job_id.c_str(),
               allocation.restart > 0 ? fmt::format(" (restart {})", allocation.restart).c_str() : "", shape.ranks,
               nodes, nodes == 1 ? "" : "s", shape.cpus_per_rank, shape.cpus_per_rank == 1 ? "" : "s",
               run->path().c_str());

  if (const auto warning = lead_warning(job, run->path()))
    std::fprintf(stderr, "railyard: warning: %s\n", warning->c_str());

  int stopped_by = 0;
  SupervisorOptions options;
  options.max_restarts = static_cast<int>(job.spec.run.max_restarts);
  options.on_stop = [&](int signal) { stopped_by = signal; };
  options.command = [&](int start, const std::optional<Ending>&) {
    if (!by_srun) {
      MpirunOptions mpi{.ranks = shape.ranks, .cores = shape.ranks, .local = false, .program = program};
      StepCommand command = mpirun_command(*mpirun, mpi, inherited);
      if (mpirun->kind != MpirunKind::kHydra)
        command.words.insert(command.words.begin() + 1, {"--map-by", fmt::format("ppr:{}:node", shape.per_node)});
      add_launch_variables(command.environment, run->path(), start);
      return command;
    }
    SrunOptions step{.shape = shape,
                     .nodes = spares > 0 ? pool.chosen() : std::vector<std::string>(),
                     .node_count = nodes,
                     .gpus_per_node = allocation.gpus_per_node,
                     .terminal = terminal_columns() > 0,
                     .program = program,
                     .container = container};
    StepCommand command = srun_command(srun, step, inherited);
    add_launch_variables(command.environment, run->path(), start);
    return command;
  };
  options.inspect = [&](Ending& ending) {
    if (ending.exit_code == kExitStopped)
      name_stop(ending, show_job(allocation.job_id), seconds_left(allocation.job_id));
    else
      pool.inspect(ending);
  };
  options.may_restart = [&](const Ending& ending) { return pool.may_restart(ending); };
  const Ending ending = supervise(*run, watch, options);
  if (ending.exit_code == kExitStopped) requeue_if_wanted(job.spec, ending.exit_code, stopped_by);
  // Other nodes can do what these no longer can.
  if (ending.reason == Reason::kNodeLost && job.spec.run.requeue && may_requeue(show_job(allocation.job_id))) {
    std::fprintf(stderr, "railyard: asking Slurm to requeue job %s on other nodes\n", allocation.job_id.c_str());
    requeue(allocation.job_id);
  }
  return ending.exit_code;
}

}  // namespace railyard::launch
