// Launch errors, and dropout factors on the device.
#pragma once

#include "runtime/base/philox.hpp"
#include "runtime/compute/cuda/device.hpp"
#include "runtime/compute/cuda/kernels/kernels.hpp"
#include "runtime/compute/cuda/kernels/vector.cuh"

namespace railyard::cuda {

inline void check_launch(const char* kernel) { check(cudaGetLastError(), kernel); }

// Lets a kernel have more shared memory than what needs no asking.
template <class Kernel>
void allow_shared_memory(Kernel kernel, std::size_t bytes) {
  if (bytes > 48 * 1024)
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
          "shared memory of a kernel");
}

// Blocks of a one-dimensional grid over `work` items, `per_block` each.
inline unsigned grid_of(std::int64_t work, std::int64_t per_block) {
  return static_cast<unsigned>(divide_up(work, per_block));
}

// Blocks of `threads` accesses of `width` elements over a matrix, those of a row beside each other (so that memory is
// written in order), and where a block is in it.
inline unsigned row_grid(std::int64_t rows, std::int64_t columns, int threads, int width) {
  return static_cast<unsigned>(rows * divide_up<std::int64_t>(columns, std::int64_t{threads} * width));
}
struct RowPlace {
  std::int64_t row, column;
};
template <int kBlockThreads, int W>
__device__ __forceinline__ RowPlace row_place(std::int64_t columns) {
  const auto chunks = static_cast<unsigned>(divide_up<std::int64_t>(columns, kBlockThreads * W));
  const unsigned row = blockIdx.x / chunks;
  return {row, (static_cast<std::int64_t>(blockIdx.x - row * chunks) * kBlockThreads + threadIdx.x) * W};
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
