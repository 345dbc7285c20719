// Launch errors, and dropout factors on the device.
#pragma once

#include "runtime/base/philox.hpp"
#include "runtime/compute/cuda/device.hpp"
#include "runtime/compute/cuda/kernels/kernels.hpp"
#include "runtime/compute/cuda/kernels/vector.cuh"

namespace railyard::cuda {

inline void check_launch(const char* kernel) { check(cudaGetLastError(), kernel); }

// Blocks of a one-dimensional grid over `work` items, `per_block` each.
inline unsigned grid_of(std::int64_t work, std::int64_t per_block) {
  return static_cast<unsigned>(divide_up(work, per_block));
}

// What four consecutive features (or keys) of a token are multiplied with; block = feature / 4.
__device__ __forceinline__ void dropout_factors(std::int64_t sample, std::int32_t position, std::int64_t block,
                                                std::uint64_t key, float probability, float kept, float (&factors)[4]) {
  const auto bits = static_cast<std::uint64_t>(sample);
  const PhiloxBlock random = philox4x32(static_cast<std::uint32_t>(bits), static_cast<std::uint32_t>(bits >> 32),
                                        static_cast<std::uint32_t>(position), static_cast<std::uint32_t>(block), key);
#pragma unroll
  for (int i = 0; i < 4; ++i) factors[i] = uniform_open(random.x[i]) >= probability ? kept : 0.0F;
}

}  // namespace railyard::cuda
