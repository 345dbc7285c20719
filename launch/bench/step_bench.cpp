// Cases and timing of `railyard bench step`.
#include "launch/bench/step_bench.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <memory>
#include <sstream>

#include "runtime/base/error.hpp"
#include "runtime/comm/load.hpp"
#include "runtime/train/trainer.hpp"

namespace railyard::launch {
namespace {

struct ModelSize {
  std::int64_t vocab, hidden, layers, heads, kv_heads, ffn, length, micro_batch, accumulation;
};

JobSpec bench_job(const std::string& name, const ModelSize& size) {
  JobSpec job;
  job.name = name;
  job.model = {.layers = size.layers,
               .hidden = size.hidden,
               .heads = size.heads,
               .kv_heads = size.kv_heads,
               .head_dim = size.hidden / size.heads,
               .ffn = size.ffn,
               .vocab = size.vocab,
               .vocab_divisible_by = 64,
               .seq_length = size.length,
               .max_positions = size.length,
               .norm = "rmsnorm",
               .activation = "swiglu",
               .position = "rope",
               .rope_theta = 5e5};
  job.data.mock = true;
  job.data.split = "100,0,0";
  job.data.sampling = "sequential";
  job.parallel.dp = 1;
  job.parallel.order = "tp-cp-ep-dp-pp";
  job.parallel.schedule = "1f1b";
  job.train.micro_batch = size.micro_batch;
  job.train.global_batch = size.micro_batch * size.accumulation;
  job.train.optimizer = {.type = "adamw"};
  job.train.recompute.granularity = "none";
  job.train.grad_reduce_dtype = "fp32";
  job.train.on_nan = "stop";
  job.checkpoint.dir = "ckpt";
  job.checkpoint.resume = "never";
  job.log.format = "railyard";
  return job;
}

// Seconds since this process was started, by the kernel's account.
double process_age() {
  std::ifstream stat("/proc/self/stat"), uptime("/proc/uptime");
  std::string text((std::istreambuf_iterator<char>(stat)), {});
  double now = 0.0;
  uptime >> now;
  std::istringstream fields(text.substr(text.rfind(')') + 2));
  std::string field;
  for (int i = 0; i < 20; ++i) fields >> field;  // the 22nd field of the line: start time in clock ticks
  return now - std::stod(field) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

class TemporaryFolder {
 public:
  TemporaryFolder() : path_(std::filesystem::temp_directory_path() / fmt::format("railyard-bench-{}", ::getpid())) {
    std::filesystem::create_directories(path_);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace

std::vector<StepCase> step_cases() {
  std::vector<StepCase> cases;
  const auto add = [&](const char* name, bool cuda, const ModelSize& size) {
    cases.push_back({name, cuda, bench_job(name, size)});
  };
  add("cpu-first-train", false, {256, 256, 4, 8, 8, 688, 256, 8, 1});
  add("cpu-15m", false, {32000, 288, 6, 6, 6, 768, 256, 8, 1});
  add("gpt124m-ish", true, {50304, 768, 12, 12, 12, 2048, 1024, 32, 1});
  add("llama1b", true, {128256, 2048, 16, 32, 8, 8192, 4096, 4, 2});
  add("llama8b-8layer", true, {32000, 4096, 8, 32, 8, 14336, 4096, 2, 4});
  add("llama8b-8layer-8k", true, {32000, 4096, 8, 32, 8, 14336, 8192, 1, 4});
  // GPT-2 1.56B as llm.c trains it: biases, learned positions, tied head, tanh GELU, vocabulary padded to 50304.
  add("gpt2-1558m", true, {50257, 1600, 48, 25, 25, 6400, 1024, 16, 16});
  ModelSpec& gpt2 = cases.back().job.model;
  gpt2.vocab_divisible_by = 128;
  gpt2.norm = "layernorm";
  gpt2.activation = "gelu_tanh";
  gpt2.position = "learned";
  gpt2.bias = true;
  gpt2.tied_embeddings = true;
  return cases;
}

StepFigures run_step_bench(const StepCase& step_case, const StepBenchOptions& options) {
  constexpr int kWarmup = 3;
  JobSpec job = step_case.job;
  job.run.device = options.device;
  job.train.precision = !options.precision.empty() ? options.precision : options.device == "cuda" ? "bf16" : "fp32";
  job.train.fp8.recipe = options.fp8_recipe;
  if (options.micro_batch) {
    if (job.train.global_batch % *options.micro_batch != 0)
      throw UsageError("--micro-batch {}: does not divide the case's global batch {}", *options.micro_batch,
                       job.train.global_batch);
    job.train.micro_batch = *options.micro_batch;
  }
  job.train.iterations = kWarmup + options.steps;
  job.train.lr = {.schedule = "constant", .peak = 3e-4, .min = 3e-4, .decay_iterations = job.train.iterations};
  const std::unique_ptr<Backend> backend =
      options.device == "cuda" ? make_cuda_backend({}) : make_cpu_backend({.threads = options.threads});
  const auto communicator = make_single_communicator(*backend);
  const TemporaryFolder folder;
  StepFigures figures;
  std::vector<double> times;
  TrainEnvironment environment;
  environment.communicator = communicator.get();
  environment.backend = backend.get();
  environment.run_dir = environment.data_root = folder.path();
  environment.save = false;
  environment.on_step = [&](const StepRecord& record) {
    if (record.step == 1) figures.first_step_s = process_age();
    if (record.step > kWarmup) times.push_back(record.step_s);
    figures.loss = record.loss;
    figures.peak_gib = record.mem_gib.value_or(0.0);
    figures.tokens_per_s = record.tokens_per_s * record.step_s;
    figures.tflops = record.tflops_per_gpu * record.step_s;
    if (record.mfu) figures.mfu = *record.mfu * record.step_s;
  };
  train(job, Layout::resolve(job.parallel, 1), environment);
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  figures.step_s = times[times.size() / 2];
  figures.tokens_per_s /= figures.step_s;  // the last step's work over the median time
  figures.tflops /= figures.step_s;
  if (figures.mfu) *figures.mfu /= figures.step_s;
  return figures;
}

}  // namespace railyard::launch
