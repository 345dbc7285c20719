// The second stage of sums over rows: partial sums added up in order.
#pragma once

#include "runtime/compute/cuda/kernels/launch.cuh"

namespace railyard::cuda {

// A block sums 32 columns: its 8 rows of threads take every eighth part, then are added in order.
__global__ static void sum_parts_kernel(const float* partial, std::int64_t parts, std::int64_t columns, float* out) {
  __shared__ float sums[8][kWarp];
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kWarp + threadIdx.x;
  float sum = 0.0F;
  if (column < columns) {
#pragma unroll 4
    for (std::int64_t part = threadIdx.y; part < parts; part += 8) sum += partial[part * columns + column];
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= columns) return;
  for (int i = 1; i < 8; ++i) sum += sums[i][threadIdx.x];
  out[column] += sum;
}

// out [columns] += sum of the rows of partial [parts, columns].
inline void sum_parts(const Target& target, const float* partial, std::int64_t parts, std::int64_t columns,
                      float* out) {
  sum_parts_kernel<<<grid_of(columns, kWarp), dim3(kWarp, 8), 0, target.stream>>>(partial, parts, columns, out);
  check_launch("sum of parts");
}

}  // namespace railyard::cuda
