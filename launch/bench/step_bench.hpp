// Times whole training steps of well-known shapes on one device, on random tokens: what `railyard bench step` prints.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/job.hpp"

namespace railyard::launch {

struct StepCase {
  std::string name;
  bool cuda = false;  // a case for a large GPU
  JobSpec job;
};

// The shapes that published and peer figures use; each has its own micro and global batch.
std::vector<StepCase> step_cases();

struct StepBenchOptions {
  std::string device = "cpu";  // "cpu", "cuda"
  std::string precision;       // empty: fp32 on a CPU, bf16 on a GPU
  std::string fp8_recipe = "current";
  int threads = 1;  // CPU
  int steps = 10;   // timed, after three that are not
  std::optional<std::int64_t> micro_batch;
};

struct StepFigures {
  double step_s = 0.0;  // median
  double tokens_per_s = 0.0;
  double tflops = 0.0;  // model FLOPs
  std::optional<double> mfu;
  double peak_gib = 0.0;
  double loss = 0.0;          // of the last step
  double first_step_s = 0.0;  // from the start of the program to the end of the first step
};

// Errors are those of training. Writes into a temporary folder only.
StepFigures run_step_bench(const StepCase& step_case, const StepBenchOptions& options);

}  // namespace railyard::launch
