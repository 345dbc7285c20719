// Meets the other ranks, settles what to do, and does it.
#include "launch/bootstrap/join.hpp"

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>

#include "launch/bootstrap/binding.hpp"
#include "launch/bootstrap/rank_environment.hpp"
#include "launch/bootstrap/train_rank.hpp"
#include "launch/outcome.hpp"
#include "launch/supervisor.hpp"
#include "launch/watchdog.hpp"
#include "runtime/base/error.hpp"
#include "runtime/base/layout.hpp"

namespace railyard::launch {
namespace fs = std::filesystem;
namespace {

std::unique_ptr<Bootstrap> meet(const Surroundings& around, const JoinOptions& options) {
  const BootstrapOptions bootstrap{.timeout = options.timeout};
  const Watchdog watchdog(options.timeout + 15.0,
                          fmt::format("start-up on {}: the process manager does not answer; is the PMIx plugin of "
                                      "Slurm of the same kind as libpmix here? Try srun --mpi=none",
                                      host_name()));
  switch (around.meeting) {
    case Meeting::kNone:
      return make_single_bootstrap();
    case Meeting::kPmix:
      return make_pmix_bootstrap(bootstrap);
    case Meeting::kSlurmTcp:
      break;
    case Meeting::kMpi:
      // Rank and size from the starter's variables do; the exchange needs no MPI.
      if (around.size == 0)
        throw UsageError(
            "the launcher that started this rank tells no size; use mpirun, srun --mpi=pmix or `railyard run`");
      break;
  }
  const auto given = environment_value(kRendezvousVariable);
  const std::string job =
      environment_value("SLURM_JOB_ID").value_or(environment_value("PMI_JOBID").value_or(std::to_string(getppid())));
  const std::string step = environment_value("SLURM_STEP_ID").value_or("0");
  const std::string restart = environment_value("SLURM_RESTART_COUNT").value_or("0");
  const fs::path here = fs::current_path() / fmt::format(".railyard-{}.{}.{}", job, step, restart);
  return make_tcp_bootstrap(around.rank, around.size, given.value_or(here.string()), bootstrap);
}

struct Failure {
  int exit_code = 0;
  std::string message;
};

// Rank 0's decision, or its failure, in one broadcast: all ranks go on together or end together.
std::optional<Settled> settle_together(Bootstrap& bootstrap, const Settle& settle,
                                       std::unique_ptr<RunDirectory>& directory, Failure& failure) {
  const auto texts = bootstrap.gather(own_facts(bootstrap.identity()).to_json().dump());
  Json answer;
  if (bootstrap.identity().rank == 0) {
    try {
      std::vector<RankFacts> facts;
      for (const auto& text : texts) facts.push_back(RankFacts::from_json(parse_json(text, "a rank's facts")));
      answer = settle(facts, directory).to_json();
    } catch (const Error& error) {
      failure = {error.exit_code(), error.what()};
    } catch (const std::exception& error) {
      failure = {kExitFailed, error.what()};
    }
    if (failure.exit_code != 0) answer = Json{{"failed", failure.exit_code}};
  }
  answer = parse_json(bootstrap.broadcast(answer.dump()), "rank 0's decision");
  if (answer.contains("failed")) {
    failure.exit_code = answer["failed"].get<int>();
    return std::nullopt;
  }
  return Settled::from_json(answer);
}

// Binds to what was settled for this rank; returns the threads to use.
int bind_rank(const Identity& identity, const RankAssignment& mine, const JobSpec& job,
              std::vector<std::string>& notes) {
  const auto wanted = topology::CpuSet::parse_list(mine.cpus).value_or(topology::CpuSet{});
  std::vector<Core> cores;
  for (Core core : allowed_cores()) {
    std::erase_if(core.cpus, [&](int cpu) { return !wanted.contains(cpu); });
    if (!core.cpus.empty()) cores.push_back(std::move(core));
  }
  if (!cores.empty())
    if (const auto problem = bind_to(cores))
      notes.push_back(fmt::format("[rank {} {}] {}", identity.rank, identity.host, *problem));
  if (job.run.threads > 0) return static_cast<int>(job.run.threads);
  return std::max<int>(1, static_cast<int>(cores.size()));
}

// Sets what MPI, UCX, NCCL, CUDA and OpenMP read when they start.
void set_environment(const Settled& settled, const RankAssignment& mine, const JobSpec& job, int threads,
                     std::vector<std::string>& notes) {
  EnvironmentSources sources;
  sources.inherited = current_environment();
  sources.site = settled.site_environment;
  sources.site_hook = mine.site_hook;
  sources.job = job.run.setenv;
  sources.network = mine.network;
  sources.threads = threads;
  sources.cuda = settled.device == "cuda";
  for (const auto& [name, value] : rank_environment(sources, notes)) setenv(name.c_str(), value.c_str(), 1);
  if (mine.visible.empty()) return;
  // By UUID, so that neither the order of devices nor an inherited mask matters.
  setenv("CUDA_VISIBLE_DEVICES", mine.visible.c_str(), 1);
}

}  // namespace

Json Settled::to_json() const {
  Json parts = Json::array();
  for (const RankAssignment& each : ranks) parts.push_back(each.to_json());
  return Json{{"job", job},
              {"run_dir", run_dir.string()},
              {"start", start},
              {"device", device},
              {"communicator", communicator},
              {"ranks", std::move(parts)},
              {"site_environment", site_environment}};
}

Settled Settled::from_json(const Json& json) {
  Settled settled;
  settled.job = json.at("job");
  settled.run_dir = json.at("run_dir").get<std::string>();
  settled.start = json.at("start").get<int>();
  settled.device = json.at("device").get<std::string>();
  settled.communicator = json.at("communicator").get<std::string>();
  for (const Json& each : json.at("ranks")) settled.ranks.push_back(RankAssignment::from_json(each));
  settled.site_environment = json.at("site_environment").get<Environment>();
  return settled;
}

void choose_device(const JobSpec& job, const std::vector<RankFacts>& facts, Settled& settled) {
  const auto usable = [](const RankFacts& rank) { return rank.cuda_part && rank.devices.count > 0; };
  const bool all = std::all_of(facts.begin(), facts.end(), usable),
             any = std::any_of(facts.begin(), facts.end(), usable);
  if (job.run.device == "cuda" && !all) {
    const auto blind = static_cast<std::size_t>(std::find_if_not(facts.begin(), facts.end(), usable) - facts.begin());
    throw UsageError("run.device: \"cuda\", but rank {} on {} {}", blind, facts[blind].host,
                     facts[blind].cuda_part ? "sees no device" : "has no librailyard_cuda.so (built without CUDA)");
  }
  if (job.run.device == "auto" && any && !all)
    throw UsageError(
        "run.device: \"auto\" finds CUDA devices for some ranks only; set \"cpu\", or give every rank a device");
  settled.device = job.run.device == "cuda" || (job.run.device == "auto" && all) ? "cuda" : "cpu";
  const bool several = facts.size() > 1;
  settled.communicator = !several                                                    ? "single"
                         : settled.device == "cuda" && job.run.communicator != "mpi" ? "nccl"
                                                                                     : "mpi";
  if (job.run.communicator == "nccl" && settled.device != "cuda")
    throw UsageError("run.communicator: \"nccl\" needs run.device = \"cuda\"");
}

int last_stop_signal() { return stop_signal(); }

int join_and_train(const Surroundings& around, const Settle& settle, const JoinOptions& options) {
  // mpirun that is killed outright leaves its ranks behind; Slurm ends a step by itself.
  if (options.launched && around.under_mpirun) prctl(PR_SET_PDEATHSIG, SIGKILL);
  take_stop_signals(options.launched);
  // Order matters: the bootstrap must outlive MPI's end, and the directory's lock everything.
  std::unique_ptr<RunDirectory> directory;
  const std::unique_ptr<Bootstrap> bootstrap = meet(around, options);
  const Identity me = bootstrap->identity();
  Failure failure;
  const auto settled = settle_together(*bootstrap, settle, directory, failure);
  if (!settled) {
    if (me.rank == 0) std::fprintf(stderr, "railyard: %s\n", failure.message.c_str());
    bootstrap->barrier();  // nobody leaves while another still waits for the decision
    return failure.exit_code;
  }
  const JobSpec job = JobSpec::from_json(settled->job);
  const Layout layout = Layout::resolve(job.parallel, me.size);

  const RankAssignment& mine = settled->ranks.at(static_cast<std::size_t>(me.rank));
  std::vector<std::string> notes;
  const int threads = bind_rank(me, mine, job, notes);
  set_environment(*settled, mine, job, threads, notes);
  for (const std::string& note : notes)
    if (first_to_say(settled->run_dir, settled->start, note)) std::fprintf(stderr, "railyard: %s\n", note.c_str());

  RankContext context;
  context.world_rank = me.rank;
  context.size = me.size;
  for (const RankAssignment& each : settled->ranks) context.logical_ranks.push_back(each.logical);
  context.host = me.host;
  context.device = settled->device;
  context.device_index = std::max(0, mine.ordinal);
  context.communicator = settled->communicator;
  context.threads = threads;
  context.run_dir = settled->run_dir;
  context.data_root = fs::current_path();
  context.start = settled->start;
  context.terminal_columns = static_cast<int>(environment_number(kTerminalVariable).value_or(terminal_columns()));
  context.timeout = std::min(job.run.timeout, 120.0);
  const int logical = mine.logical;
  const auto on_error = [&](const std::exception& error) {
    const auto* known = dynamic_cast<const Error*>(&error);
    const int code = known != nullptr ? known->exit_code() : kExitFailed;
    leave_rank_end(context.run_dir, context.start, {logical, me.host, classify(error), code, error.what()});
    if (first_to_say(context.run_dir, context.start, error.what()))
      std::fprintf(stderr, "railyard: %s\n", error.what());
    return code;
  };
  const int code = train_rank(job, layout, context, on_error);
  if (code == kExitStopped && me.rank == 0) {
    const bool by_interval = stop_signal() == 0 && (job.train.exit_interval > 0 || job.train.exit_duration > 0.0);
    leave_rank_end(context.run_dir, context.start,
                   {logical, me.host, by_interval ? Reason::kInterval : Reason::kSignal, code,
                    by_interval ? "train.exit_interval or exit_duration reached"
                                : fmt::format("asked to stop by signal {}", stop_signal())});
  }
  // Without a launcher nobody else tells why the run ended.
  if (directory) write_why(context.run_dir, judge(context.run_dir, context.start, code, stop_signal() != 0));
  return code;
}

}  // namespace railyard::launch
