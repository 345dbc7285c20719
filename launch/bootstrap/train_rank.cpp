// Puts communicator, backend, signals and reports together and trains.
#include "launch/bootstrap/train_rank.hpp"

#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>

#include "launch/watchdog.hpp"
#include "runtime/base/error.hpp"
#include "runtime/base/json.hpp"
#include "runtime/comm/load.hpp"
#include "runtime/compute/backend.hpp"
#include "runtime/report/console.hpp"
#include "runtime/report/metrics_log.hpp"
#include "runtime/report/tensorboard.hpp"
#include "runtime/train/trainer.hpp"

namespace railyard::launch {
namespace {

volatile std::sig_atomic_t asked_by = 0;

extern "C" void remember_signal(int number) {
  if (asked_by == 0) asked_by = number;
}

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

// What rank 0 tells people and files while a run goes on.
class Reports {
 public:
  Reports(const JobSpec& job, const RankContext& context)
      : run_dir_(context.run_dir),
        metrics_(context.run_dir / "metrics.jsonl"),
        log_file_(std::fopen((context.run_dir / "log" / fmt::format("train-{}.txt", context.start)).c_str(), "a")),
        folder_(job.log.tensorboard ? std::optional(context.run_dir / "tensorboard") : std::nullopt),
        restarted_(context.start > 1) {
    ConsoleOptions options;
    options.format = job.log.format == "megatron" ? ConsoleFormat::kMegatron : ConsoleFormat::kRailyard;
    options.iterations = job.train.iterations;
    options.every = job.log.every;
    options.device = context.device == "cuda" ? "GPU" : "rank";
    if (log_file_ != nullptr) {
      std::setvbuf(log_file_.get(), nullptr, _IOLBF, 0);
      log_.emplace(log_file_.get(), options);
    }
    options.set_terminal(context.terminal_columns);
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    screen_.emplace(stdout, options);
  }
  void step(const StepRecord& record) {
    metrics_.append(record);
    open_board({record.step - 1, record.consumed_samples - record.global_batch});
    if (board_) board_->step(record);
    screen_->step(record);
    if (log_) log_->step(record);
  }
  void evaluation(const EvaluationRecord& record) {
    metrics_.append(record);
    if (record.step == 0) open_board({0, 0});
    if (board_) board_->evaluation(record);
    screen_->evaluation(record);
    if (log_) log_->evaluation(record);
  }
  void timeline(const PipelineTimeline& timeline) {
    write_file_atomic(run_dir_ / "log" / "timeline.json", timeline.to_json().dump() + "\n");
  }
  void say(const std::string& line) {
    screen_->note(line);
    if (log_) log_->note(line);
  }
  void finish() {
    metrics_.sync();
    screen_->finish();
    if (log_) log_->finish();
  }

 private:
  // Earlier starts may have written steps behind the checkpoint from which this one goes on.
  void open_board(const TensorBoard::Resume& before) {
    if (folder_ && !board_) board_.emplace(*folder_, restarted_ ? std::optional(before) : std::nullopt);
  }

  std::filesystem::path run_dir_;
  MetricsLog metrics_;
  std::unique_ptr<std::FILE, CloseFile> log_file_;
  std::optional<std::filesystem::path> folder_;
  bool restarted_;
  std::optional<TensorBoard> board_;
  std::optional<Console> screen_, log_;
};

std::unique_ptr<Backend> make_backend(const JobSpec& job, const RankContext& context) {
  if (context.device == "cuda")
    return make_cuda_backend({.device = context.device_index, .deterministic = job.train.deterministic});
  return make_cpu_backend({.threads = context.threads});
}

void start_mpi(const RankContext& context) {
  const Watchdog watchdog(
      context.timeout, fmt::format("rank {} on {}: MPI has not started within {:.0f} s (run.timeout); under Slurm this "
                                   "is most often a wrong --mpi flavour: see srun --mpi=list and railyard doctor",
                                   context.world_rank, context.host, context.timeout));
  const MpiWorld world = initialize_mpi();
  if (world.size != context.size || world.rank != context.world_rank)
    throw UsageError(
        "MPI says rank {} of {}, but this run has rank {} of {}: MPI does not know whoever started the ranks. Under "
        "Slurm use "
        "srun --mpi=pmix with an MPI that was built with PMIx, or start by `railyard run` inside the allocation",
        world.rank, world.size, context.world_rank, context.size);
}

}  // namespace

void take_stop_signals(bool launched) {
  struct sigaction action {};
  action.sa_handler = remember_signal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR1, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  if (launched) action.sa_handler = SIG_IGN;
  sigaction(SIGINT, &action, nullptr);
}

int stop_signal() { return asked_by; }

int train_rank(const JobSpec& job, const Layout& layout, const RankContext& context,
               const std::function<int(const std::exception&)>& on_error) {
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Communicator> host, world;
  std::unique_ptr<Reports> reports;
  bool mpi = false;
  try {
    if (context.communicator != "single") {
      start_mpi(context);
      mpi = true;
    }
    backend = make_backend(job, context);
    const CommunicatorOptions options{.timeout = job.run.timeout, .logical_ranks = context.logical_ranks};
    if (context.communicator == "single") {
      world = make_single_communicator(*backend);
    } else {
      host = make_mpi_communicator(*backend, options);
      world = context.communicator == "nccl" ? make_nccl_communicator(*backend, *host, options) : std::move(host);
    }
    if (world->rank() == 0) reports = std::make_unique<Reports>(job, context);
    TrainEnvironment environment;
    environment.communicator = world.get();
    environment.backend = backend.get();
    environment.run_dir = context.run_dir;
    environment.data_root = context.data_root;
    environment.stop_requested = [] { return stop_signal() != 0; };
    if (reports) {
      environment.on_step = [&](const StepRecord& record) { reports->step(record); };
      environment.on_evaluation = [&](const EvaluationRecord& record) { reports->evaluation(record); };
      environment.on_timeline = [&](const PipelineTimeline& timeline) { reports->timeline(timeline); };
      environment.say = [&](const std::string& line) { reports->say(line); };
    }
    const TrainResult result = train(job, layout, environment);
    if (reports) reports->finish();
    reports.reset();
    world.reset();
    host.reset();
    backend.reset();
    if (mpi) finalize_mpi();
    return result.end == TrainEnd::kDone ? kExitDone : kExitStopped;
  } catch (const std::exception& error) {
    reports.reset();  // leaves the bar's last state as a line
    const int code = on_error(error);
    // Others may wait for this rank: they cannot be told but by ending them.
    if (world && context.size > 1) world->abort(code);
    if (host) host->abort(code);
    return code;
  }
}

}  // namespace railyard::launch
