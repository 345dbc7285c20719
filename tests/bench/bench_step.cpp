// Whole training steps of two small Llama-style models on random tokens, in any layout:
//
//   [mpirun -n RANKS] bench_step [--tp N] [--dp N] [--pp N] [--threads N] [--steps N] [--save-every N] [--bf16]
//   first-train | 15m
//
// Each data rank takes its share of the same global batch of 8 samples. Prints the median and the least step of rank 0;
// with --save-every, what the asynchronous checkpoints cost the steps after them.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/comm/mpi/mpi_communicator.hpp"
#include "runtime/train/trainer.hpp"

namespace railyard {
namespace {

JobSpec job_of(const std::string& name, const ParallelSpec& parallel, std::int64_t micro_batch, int steps, bool bf16,
               int save_every) {
  JobSpec job;
  job.name = name;
  if (name == "first-train") {
    job.model = {.layers = 4, .hidden = 256, .heads = 8, .kv_heads = 8, .head_dim = 32, .ffn = 688, .vocab = 256};
  } else if (name == "15m") {
    job.model = {.layers = 6, .hidden = 288, .heads = 6, .kv_heads = 6, .head_dim = 48, .ffn = 768, .vocab = 32000};
  } else {
    throw UsageError("no model {}", name);
  }
  job.model.vocab_divisible_by = 1;
  job.model.seq_length = job.model.max_positions = 256;
  job.model.norm = "rmsnorm";
  job.model.activation = "swiglu";
  job.model.position = "rope";
  job.data.mock = true;
  job.data.split = "90,10";
  job.data.sampling = "sequential";
  job.parallel = parallel;
  job.parallel.order = "tp-cp-ep-dp-pp";
  job.parallel.schedule = "1f1b";
  job.train.iterations = steps;
  job.train.micro_batch = micro_batch;
  job.train.global_batch = 8;
  job.train.precision = bf16 ? "bf16" : "fp32";
  job.train.optimizer = {.type = "adamw"};
  job.train.lr = {.schedule = "constant", .peak = 3e-4, .min = 3e-4, .decay_iterations = steps};
  job.train.recompute.granularity = "none";
  job.train.grad_reduce_dtype = "fp32";
  job.train.on_nan = "stop";
  job.checkpoint.dir = "ckpt";
  job.checkpoint.resume = "never";
  job.checkpoint.every = save_every;
  job.checkpoint.keep = 1;
  job.run.device = "cpu";
  job.run.communicator = "auto";
  job.log.format = "railyard";
  return job;
}

// From when each step ended: the mean time that a save adds to the `every` steps behind it, in parts of their time
// without one (the median step).
double cost_of_saves(const std::vector<double>& ends, int every) {
  std::vector<double> gaps;
  for (std::size_t i = 2; i < ends.size(); ++i) gaps.push_back(ends[i] - ends[i - 1]);
  std::vector<double> sorted = gaps;
  std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2), sorted.end());
  const double usual = sorted[sorted.size() / 2], interval = usual * every;
  double added = 0.0;
  int saves = 0;
  // gaps[i] is that of step i + 3 (ends[0] belongs to step 1); a save follows each multiple of `every`.
  for (std::size_t first = static_cast<std::size_t>(every) - 2; first + static_cast<std::size_t>(every) <= gaps.size();
       first += static_cast<std::size_t>(every), ++saves)
    for (std::size_t i = first; i < first + static_cast<std::size_t>(every); ++i) added += gaps[i] - usual;
  return saves == 0 ? 0.0 : added / saves / interval;
}

void run(int argc, char** argv) {
  const auto program = std::chrono::steady_clock::now();
  ParallelSpec parallel;
  parallel.dp = 1;
  int threads = 1, steps = 10, save_every = 0;
  bool bf16 = false;
  std::string name = "first-train";
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const int number = i + 1 < argc ? std::atoi(argv[i + 1]) : 0;
    if (argument == "--bf16") {
      bf16 = true;
      continue;
    }
    if (argument.rfind("--", 0) != 0) {
      name = argument;
      continue;
    }
    if (argument == "--tp") parallel.tp = number;
    if (argument == "--dp") parallel.dp = number;
    if (argument == "--pp") parallel.pp = number;
    if (argument == "--threads") threads = number;
    if (argument == "--steps") steps = number;
    if (argument == "--save-every") save_every = number;
    ++i;
  }
  const auto backend = make_cpu_backend({.threads = threads});
  mpi::MpiCommunicator world(*backend, {});
  const Layout layout = Layout::resolve(parallel, world.size());
  const std::int64_t micro_batch = 8 / parallel.dp / (parallel.pp > 1 ? 2 * parallel.pp : 1);
  const std::string folder =
      std::filesystem::temp_directory_path() / ("railyard-bench-" + world.broadcast(std::to_string(getpid()), 0));
  if (world.rank() == 0) std::filesystem::create_directories(folder);
  world.barrier();
  std::vector<double> times, ends;
  double first = 0.0, loss = 0.0;
  TrainEnvironment environment;
  environment.communicator = &world;
  environment.backend = backend.get();
  environment.run_dir = environment.data_root = folder;
  environment.on_step = [&](const StepRecord& record) {
    if (times.empty()) first = std::chrono::duration<double>(std::chrono::steady_clock::now() - program).count();
    times.push_back(record.step_s);
    ends.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - program).count());
    loss = record.loss;
  };
  train(job_of(name, parallel, std::max<std::int64_t>(micro_batch, 1), steps, bf16, save_every), layout, environment);
  world.barrier();
  if (world.rank() != 0) return;
  std::filesystem::remove_all(folder);
  times.erase(times.begin());
  std::sort(times.begin(), times.end());
  const double median = times[times.size() / 2];
  fmt::print(
      "{}: {} ranks of {} threads, tp {} dp {} pp {}: median {:.1f} ms, least {:.1f} ms, {:.0f} tokens/s, first step "
      "after {:.2f} s, "
      "loss {:.3f}\n",
      name, world.size(), threads, parallel.tp, parallel.dp, parallel.pp, median * 1e3, times.front() * 1e3,
      2048.0 / median, first, loss);
  if (save_every > 2)
    fmt::print("asynchronous saves every {} steps cost {:.1f} % of the steps between them\n", save_every,
               100.0 * cost_of_saves(ends, save_every));
}

}  // namespace
}  // namespace railyard

int main(int argc, char** argv) {
  railyard::mpi::initialize();
  railyard::run(argc, argv);
  railyard::mpi::finalize();
  return 0;
}
