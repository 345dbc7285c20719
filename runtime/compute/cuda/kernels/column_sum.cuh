// The second stage of sums over rows: partial sums added up in a fixed order.
#pragma once

#include "runtime/compute/cuda/kernels/launch.cuh"

namespace railyard::cuda {

// A block sums 32 columns: each of its 32 rows of threads takes every 32nd part, then they are added in order.
__global__ static void sum_parts_kernel(const float* partial, std::int64_t parts, std::int64_t columns, float* out) {
  __shared__ float sums[kWarp][kWarp + 1];
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kWarp + threadIdx.x;
  float sum = 0.0F;
  if (column < columns) {
#pragma unroll 8
    for (std::int64_t part = threadIdx.y; part < parts; part += kWarp) sum += partial[part * columns + column];
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  // Row y adds up column y, so that all warps work.
  const float total = warp_sum(sums[threadIdx.x][threadIdx.y]);
  const std::int64_t mine = static_cast<std::int64_t>(blockIdx.x) * kWarp + threadIdx.y;
  if (threadIdx.x == 0 && mine < columns) out[mine] += total;
}

// out [columns] += sum of the rows of partial [parts, columns].
inline void sum_parts(const Target& target, const float* partial, std::int64_t parts, std::int64_t columns,
                      float* out) {
  sum_parts_kernel<<<grid_of(columns, kWarp), dim3(kWarp, kWarp), 0, target.stream>>>(partial, parts, columns, out);
  check_launch("sum of parts");
}

}  // namespace railyard::cuda
