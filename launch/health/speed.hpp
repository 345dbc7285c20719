// How fast a node computes, by a short matrix product.
#pragma once

#include "runtime/base/json.hpp"

namespace railyard::launch {

// Floating-point operations per second of CPU time of one core in fp32, the best of a few products of some
// milliseconds; other processes on the core do not change it, a low clock does.
[[nodiscard]] double core_speed();

// TFLOP/s in bf16 of the first `count` visible GPUs, a list; null where a GPU cannot be used or there is no CUDA part.
[[nodiscard]] Json gpu_speeds(int count);

}  // namespace railyard::launch
