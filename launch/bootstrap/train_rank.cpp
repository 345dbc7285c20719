// Puts communicator, backend, signals and reports together and trains.
#include "launch/bootstrap/train_rank.hpp"

#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <sstream>
#include <thread>

#include "launch/activity_files.hpp"
#include "launch/health/nvml.hpp"
#include "launch/saves.hpp"
#include "launch/stall_watch.hpp"
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

// Which rank this is, as people and the launcher know it.
ActivityOwner owner_of(const RankContext& context) {
  const auto world_rank = static_cast<std::size_t>(context.world_rank);
  return {.rank = world_rank < context.logical_ranks.size() ? context.logical_ranks[world_rank] : context.world_rank,
          .gpu = context.device == "cuda" ? context.device_index : -1,
          .host = context.host};
}

// "rank 12 node7 gpu4", as the start's placement says.
std::string rank_name(const RankContext& context, int rank) {
  std::string name = fmt::format("rank {}", rank);
  try {
    const Json placement = read_json_file(context.run_dir / fmt::format("placement-{}.json", context.start));
    for (const Json& place : placement.at("map")) {
      if (place.at("rank").get<int>() != rank) continue;
      name += " " + place.at("node").get<std::string>();
      if (!place.at("gpu").is_null()) name += fmt::format(" gpu{}", place.at("gpu").get<int>());
    }
  } catch (const std::exception&) {
    // The number alone must do.
  }
  return name;
}

std::unique_ptr<ActivityBoard> make_board(const RankContext& context) {
  const ActivityOwner owner = owner_of(context);
  try {
    return std::make_unique<ActivityBoard>(activity_file(context.run_dir, owner.rank), owner);
  } catch (const RunError& problem) {
    if (context.world_rank == 0)
      std::fprintf(stderr, "railyard: status --stacks will know nothing of this run: %s\n", problem.what());
    return std::make_unique<ActivityBoard>();
  }
}

// Critical errors of this rank's GPU, as they come.
class DeviceErrors {
 public:
  explicit DeviceErrors(const RankContext& context) : context_(context) {
    if (context.device == "cuda") watch_.emplace([this](int gpu, unsigned long long xid) { add(gpu, xid); });
  }
  // "XID 79 of gpu2": critical errors so far; empty: none.
  [[nodiscard]] std::string text() const {
    const std::lock_guard guard(mutex_);
    return text_;
  }

 private:
  void add(int gpu, unsigned long long xid) {
    const std::lock_guard guard(mutex_);
    // NVML numbers all GPUs of the node, CUDA those that are visible: named by NVML's, which administrators know.
    text_ += fmt::format("{}XID {} of gpu{} on {}", text_.empty() ? "" : ", ", xid, gpu, context_.host);
  }
  const RankContext& context_;
  mutable std::mutex mutex_;
  std::string text_;
  std::optional<XidWatch> watch_;  // last: its thread ends before the text does
};

// The file system that hangs may hold the run directory too: then the message goes to standard error alone.
[[noreturn]] void end_stalled(const RankContext& context, double timeout, const std::string& phase,
                              const std::function<int(const std::exception&)>& on_error) {
  const RunError error(
      "rank {} on {}: the file system has not answered for {:.0f} s (run.timeout) while {}; look at {} "
      "there, and at the storage's servers",
      owner_of(context).rank, context.host, timeout, phase, context.run_dir.string());
  std::atomic<bool> told{false};
  std::thread([&] {
    (void)on_error(error);
    told = true;
  }).detach();
  for (int i = 0; i < 30 && !told; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  if (!told) std::fprintf(stderr, "railyard: %s\n", error.what());
  std::fflush(stderr);
  _exit(kExitFailed);
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

namespace {

// Seconds since this process began and its CPU time so far.
struct Spent {
  double wall = 0.0, cpu = 0.0;
};

double seconds_of(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

Spent spent() {
  std::ifstream file("/proc/self/stat");
  std::string text;
  std::getline(file, text);
  // Field 22, in ticks since the machine started; the name in parentheses may hold anything.
  std::istringstream fields(text.substr(std::min(text.size(), text.rfind(')') + 2)));
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;
  const double ticks = std::strtod(field.c_str(), nullptr);
  return {seconds_of(CLOCK_BOOTTIME) - ticks / static_cast<double>(sysconf(_SC_CLK_TCK)),
          seconds_of(CLOCK_PROCESS_CPUTIME_ID)};
}

// What starting cost, the most of all ranks: for the launcher's part, and until the communication library was ready.
std::string launch_cost(Communicator& world, const Spent& before_library) {
  std::array<double, 3> most{before_library.cpu, before_library.wall, spent().wall};
  world.all_reduce(std::span(most), ReduceOp::kMax);
  return fmt::format(
      "launched {} ranks: placed {:.2f} s after their start with at most {:.3f} s of CPU time a rank; "
      "ready to communicate after {:.2f} s",
      world.size(), most[1], most[0], most[2]);
}

}  // namespace

int train_rank(const JobSpec& job, const Layout& layout, const RankContext& context,
               const std::function<int(const std::exception&)>& on_error) {
  // The board outlives all who write on it; a rank that is ended by an error leaves it behind for the launcher.
  const Spent launched = spent();
  const std::unique_ptr<ActivityBoard> board = make_board(context);
  DeviceErrors device_errors(context);
  const StallWatch stall_watch(*board, job.run.timeout, [&](const std::string& phase) {
    end_stalled(context, job.run.timeout, phase, on_error);
  });
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
    const CommunicatorOptions options{
        .timeout = job.run.timeout, .logical_ranks = context.logical_ranks, .activity = board.get()};
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
    environment.activity = board.get();
    environment.rank_name = [&](int rank) { return rank_name(context, rank); };
    environment.stop_requested = [] { return stop_signal() != 0; };
    if (reports) {
      environment.on_step = [&](const StepRecord& record) { reports->step(record); };
      environment.on_evaluation = [&](const EvaluationRecord& record) { reports->evaluation(record); };
      environment.on_timeline = [&](const PipelineTimeline& timeline) { reports->timeline(timeline); };
      environment.on_save = [&](std::int64_t step, double seconds) { record_save(context.run_dir, step, seconds); };
      environment.say = [&](const std::string& line) { reports->say(line); };
    }
    if (context.size > 1) {
      const std::string cost = launch_cost(*world, launched);
      if (reports) reports->say(cost);
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
    const std::string fault = device_errors.text();
    const int code = fault.empty() ? on_error(error) : on_error(RunError("{}; {}", fault, error.what()));
    // Others may wait for this rank: they cannot be told but by ending them.
    if (world && context.size > 1) world->abort(code);
    if (host) host->abort(code);
    return code;
  }
}

}  // namespace railyard::launch
