// Small jobs for tests.
#include <unistd.h>

#include <atomic>

#include "tests/runtime/train/job_fixture.hpp"

namespace railyard::test {

Folder::Folder() {
  static std::atomic<int> count = 0;
  path_ = std::filesystem::temp_directory_path() / fmt::format("railyard-train-{}-{}", ::getpid(), count++);
  std::filesystem::create_directories(path_);
}
Folder::~Folder() { std::filesystem::remove_all(path_); }

JobSpec gpt_job() {
  JobSpec job;
  job.name = "gpt";
  job.model = {.layers = 9,
               .hidden = 32,
               .heads = 8,
               .kv_heads = 8,
               .head_dim = 4,
               .ffn = 96,
               .vocab = 101,
               .vocab_divisible_by = 1,
               .seq_length = 16,
               .max_positions = 16,
               .norm = "layernorm",
               .activation = "gelu",
               .position = "learned",
               .bias = true,
               .tied_embeddings = true,
               .attention_dropout = 0.1,
               .hidden_dropout = 0.1};
  job.data.mock = true;
  job.data.split = "90,10";
  job.data.sampling = "sequential";
  job.parallel.dp = 1;
  job.parallel.order = "tp-cp-ep-dp-pp";
  job.parallel.schedule = "1f1b";
  job.parallel.bucket_size = 5000;
  job.train.iterations = 20;
  job.train.micro_batch = 2;
  job.train.global_batch = 16;
  job.train.precision = "fp32";
  job.train.seed = 7;
  job.train.optimizer = {
      .type = "adamw", .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1, .clip_grad = 1.0};
  job.train.lr = {.schedule = "cosine", .peak = 3e-3, .min = 3e-4, .init = 0.0, .warmup = 5, .decay_iterations = 20};
  job.train.recompute.granularity = "none";
  job.train.grad_reduce_dtype = "fp32";
  job.train.on_nan = "stop";
  job.checkpoint.dir = "ckpt";
  job.checkpoint.resume = "auto";
  job.run.device = "cpu";
  job.run.communicator = "auto";
  job.log.format = "railyard";
  return job;
}

JobSpec llama_job() {
  JobSpec job = gpt_job();
  job.name = "llama";
  job.model.heads = 16;
  job.model.norm = "rmsnorm";
  job.model.activation = "swiglu";
  job.model.position = "rope";
  job.model.bias = false;
  job.model.tied_embeddings = false;
  return job;
}

RunOutcome run_job(const JobSpec& job, const std::filesystem::path& run_dir, int ranks, std::int64_t stop_after) {
  RunOutcome outcome;
  const Layout layout = Layout::resolve(job.parallel, ranks);
  std::atomic<std::int64_t> steps = 0;
  std::filesystem::create_directories(run_dir);
  run_threads(ranks, [&](Communicator& communicator) {
    const auto backend = make_cpu_backend({.threads = 1});
    TrainEnvironment environment;
    environment.communicator = &communicator;
    environment.backend = backend.get();
    environment.run_dir = run_dir;
    environment.data_root = run_dir;
    environment.stop_requested = [&] { return stop_after > 0 && steps + 1 >= stop_after; };
    environment.on_step = [&](const StepRecord& record) {
      outcome.steps.push_back(record);
      ++steps;
    };
    environment.on_evaluation = [&](const EvaluationRecord& record) { outcome.evaluations.push_back(record); };
    environment.on_timeline = [&](const PipelineTimeline& timeline) { outcome.timelines.push_back(timeline); };
    const TrainResult result = train(job, layout, environment);
    if (communicator.rank() == 0) outcome.result = result;
  });
  return outcome;
}

std::map<std::string, std::vector<float>> read_checkpoint(const std::filesystem::path& run_dir, std::int64_t step) {
  CheckpointReader reader(step_folder(run_dir / "ckpt", step));
  std::map<std::string, std::vector<float>> tensors;
  for (const auto& [name, tensor] : reader.manifest().tensors) {
    auto& values = tensors[name];
    values.resize(static_cast<size_t>(volume(tensor.shape)));
    reader.read(name, {Extents(tensor.shape.size(), 0), tensor.shape}, {values.data(), DType::kFloat32, 0});
  }
  return tensors;
}

}  // namespace railyard::test
