// Sums over rows in two stages with a fixed order: bias gradients.
#include <algorithm>

#include "runtime/compute/cuda/kernels/column_sum.cuh"

namespace railyard::cuda {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMostParts = 256;

// Rows of one partial sum: at least 32, and at most kMostParts partial sums.
std::int64_t rows_per_part(std::int64_t rows) { return std::max<std::int64_t>(32, divide_up(rows, kMostParts)); }

template <class T, int W>
__global__ void partial_kernel(const T* in, std::int64_t rows, std::int64_t columns, std::int64_t part_rows,
                               float* partial) {
  const std::int64_t column = (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) * W;
  if (column >= columns) return;
  const std::int64_t begin = static_cast<std::int64_t>(blockIdx.y) * part_rows, end = min(rows, begin + part_rows);
  float sums[W] = {};
#pragma unroll 4
  for (std::int64_t row = begin; row < end; ++row) {
    const Pack<T, W> pack = load<T, W>(in + row * columns + column);
#pragma unroll
    for (int lane = 0; lane < W; ++lane) sums[lane] += to_float(pack.x[lane]);
  }
#pragma unroll
  for (int lane = 0; lane < W; ++lane)
    partial[static_cast<std::int64_t>(blockIdx.y) * columns + column + lane] = sums[lane];
}

}  // namespace

std::int64_t column_sum_scratch(std::int64_t rows, std::int64_t columns) {
  return rows == 0 ? 0 : divide_up(rows, rows_per_part(rows)) * columns;
}

void column_sum(const Target& target, DType type, const void* in, float* out, std::int64_t rows, std::int64_t columns,
                float* scratch) {
  if (rows == 0 || columns == 0) return;
  const std::int64_t part_rows = rows_per_part(rows), parts = divide_up(rows, part_rows);
  with_compute_type(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto run = [&](auto width) {
      constexpr int W = decltype(width)::value;
      const dim3 grid(grid_of(columns, kThreads * W), static_cast<unsigned>(parts));
      partial_kernel<T, W>
          <<<grid, kThreads, 0, target.stream>>>(static_cast<const T*>(in), rows, columns, part_rows, scratch);
    };
    if (columns % kPackOf<T> == 0 && aligned({in}))
      run(std::integral_constant<int, kPackOf<T>>{});
    else
      run(std::integral_constant<int, 1>{});
  });
  check_launch("column_sum");
  sum_parts(target, scratch, parts, columns, out);
}

}  // namespace railyard::cuda
