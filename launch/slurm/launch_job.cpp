// Launches within an allocation.
#include "launch/slurm/launch_job.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <csignal>
#include <cstdio>

#include "launch/local/mpirun.hpp"
#include "launch/slurm/control.hpp"
#include "launch/slurm/step.hpp"
#include "launch/supervisor.hpp"
#include "runtime/base/error.hpp"

namespace railyard::launch {
namespace {

// Nodes of the allocation that Slurm has given up.
std::vector<std::string> lost_nodes(const SlurmAllocation& allocation) {
  const auto live = live_nodes(allocation.job_id);
  std::vector<std::string> lost;
  if (live.empty()) return lost;
  for (const auto& node : allocation.nodes)
    if (std::find(live.begin(), live.end(), node) == live.end()) lost.push_back(node);
  return lost;
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
  const StepShape shape = shape_step(allocation, request.ranks, natural_ranks(job.spec.parallel, 0));
  (void)Layout::resolve(job.spec.parallel, shape.ranks);
  const int nodes = static_cast<int>(allocation.nodes.size());
  const SrunAbilities srun = probe_srun();
  const bool by_srun = srun.pmix().has_value() || shape.ranks == 1;
  const std::optional<Mpirun> mpirun = by_srun ? std::nullopt : std::optional(find_mpirun());
  if (mpirun)
    std::fprintf(stderr, "railyard: this Slurm's srun has no PMIx: starting the ranks with %s\n", mpirun->path.c_str());

  // Before any process starts or thread is made: all of them must hold the signals back.
  SignalWatch watch;
  const auto run = open_run(request, job);
  check_time_limit(job.spec, run->path(), seconds_left(allocation.job_id));
  std::fprintf(stderr, "railyard: Slurm job %s%s: %d ranks on %d node%s, %d CPU%s each; run directory %s\n",
               allocation.job_id.c_str(),
               allocation.restart > 0 ? fmt::format(" (restart {})", allocation.restart).c_str() : "", shape.ranks,
               nodes, nodes == 1 ? "" : "s", shape.cpus_per_rank, shape.cpus_per_rank == 1 ? "" : "s",
               run->path().c_str());

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
                     .node_count = nodes,
                     .gpus_per_node = allocation.gpus_per_node,
                     .terminal = terminal_columns() > 0,
                     .program = program};
    StepCommand command = srun_command(srun, step, inherited);
    add_launch_variables(command.environment, run->path(), start);
    return command;
  };
  options.inspect = [&](Ending& ending) {
    if (ending.exit_code == kExitDone || ending.exit_code == kExitStopped || ending.exit_code == kExitUsage) return;
    ending.lost_nodes = lost_nodes(allocation);
    if (ending.lost_nodes.empty()) return;
    ending.reason = Reason::kNodeLost;
    ending.detail =
        fmt::format("Slurm has lost node {} of job {}", fmt::join(ending.lost_nodes, ", "), allocation.job_id);
  };
  const Ending ending = supervise(*run, watch, options);
  if (ending.exit_code == kExitStopped) requeue_if_wanted(job.spec, ending.exit_code, stopped_by);
  return ending.exit_code;
}

}  // namespace railyard::launch
