// Learning-rate schedules, after Megatron-Core's OptimizerParamScheduler (warm-up is linear from `init`; iteration k,
// counted from 0, uses the value that Megatron gives to k + 1, so that no iteration is spent at a rate of zero).
#pragma once

#include <cstdint>

#include "runtime/base/job.hpp"

namespace railyard {

// The rate of iteration `step` (0-based). `spec` is resolved: decay_iterations > 0.
//   cosine, linear: from peak after warm-up to min at decay_iterations, min after it
//   constant: peak after warm-up        inverse_sqrt: peak * sqrt(warmup) / sqrt(iteration), at least min
//   wsd: peak until decay_iterations - wsd_decay, then linear to min
double learning_rate(const LearningRateSpec& spec, std::int64_t step);

}  // namespace railyard
