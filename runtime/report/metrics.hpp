// What a run says about itself: one record a step and one an evaluation. metrics.jsonl, the console and TensorBoard are
// written from these records; reports and status read metrics.jsonl back.
#pragma once

#include <cstdint>
#include <optional>

namespace railyard {

// Unknown values are empty (null in metrics.jsonl).
struct StepRecord {
  std::int64_t step = 0;  // completed updates
  double loss = 0.0;      // mean over the unmasked tokens of the global batch
  double lr = 0.0;
  double grad_norm = 0.0;   // before clipping
  std::int64_t tokens = 0;  // cumulative
  double tokens_per_s = 0.0;
  double tokens_per_s_per_gpu = 0.0;
  double tflops_per_gpu = 0.0;
  std::optional<double> mfu;      // share of the card's dense bf16 peak; empty on a CPU
  std::optional<double> mem_gib;  // peak of the worst rank
  double step_s = 0.0;
  // For the console and TensorBoard only.
  std::int64_t iterations = 0;  // of the whole run
  std::int64_t global_batch = 0;
  std::int64_t consumed_samples = 0;
  std::int64_t skipped = 0, nan = 0;  // iterations so far
  double loss_scale = 1.0;
  int gpus = 1;
};

struct EvaluationRecord {
  std::int64_t step = 0;
  double valid_loss = 0.0;
  double seconds = 0.0;
};

}  // namespace railyard
