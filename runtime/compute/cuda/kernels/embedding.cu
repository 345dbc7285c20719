// Embedding rows out of the table, and their gradient: tokens sorted by row, so that one warp adds each row's tokens in
// order and runs agree bit by bit.
#include <cub/device/device_radix_sort.cuh>

#include "runtime/compute/cuda/kernels/launch.cuh"

namespace railyard::cuda {
namespace {

constexpr int kThreads = 256;

template <class T, int W>
__global__ void forward_kernel(const std::int32_t* ids, std::int64_t columns, const T* table, std::int64_t first_row,
                               std::int64_t table_rows, bool accumulate, T* out) {
  const std::int64_t token = blockIdx.x, column = (static_cast<std::int64_t>(blockIdx.y) * kThreads + threadIdx.x) * W;
  if (column >= columns) return;
  const std::int64_t row = ids[token] - first_row;
  T* to = out + token * columns + column;
  Pack<T, W> value{};
  const bool here = row >= 0 && row < table_rows;
  if (here) value = load<T, W>(table + row * columns + column);
  if (accumulate) {
    if (!here) return;
    const Pack<T, W> old = load<T, W>(to);
#pragma unroll
    for (int lane = 0; lane < W; ++lane) value.x[lane] = from_float<T>(to_float(old.x[lane]) + to_float(value.x[lane]));
  }
  store(to, value);
}

// Rows of other ranks get the key `table_rows`, behind all of ours.
__global__ void keys_kernel(const std::int32_t* ids, std::int64_t count, std::int64_t first_row,
                            std::int64_t table_rows, std::uint32_t* keys, std::uint32_t* tokens) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= count) return;
  const std::int64_t row = ids[i] - first_row;
  keys[i] = static_cast<std::uint32_t>(row >= 0 && row < table_rows ? row : table_rows);
  tokens[i] = static_cast<std::uint32_t>(i);
}

// The warp at the first token of a row adds all of them, for 32 W columns.
template <class T, int W>
__global__ void backward_kernel(const std::uint32_t* keys, const std::uint32_t* tokens, std::int64_t count,
                                std::int64_t columns, const T* grad_out, std::uint32_t table_rows, float* grad_table) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * (kThreads / kWarp) + threadIdx.x / kWarp;
  if (first >= count) return;
  const std::uint32_t row = keys[first];
  if (row >= table_rows || (first > 0 && keys[first - 1] == row)) return;
  const std::int64_t column = (static_cast<std::int64_t>(blockIdx.y) * kWarp + threadIdx.x % kWarp) * W;
  if (column >= columns) return;
  float sums[W] = {};
  std::int64_t i = first;
  constexpr int kAhead = 4;
  while (i + kAhead <= count && keys[i + kAhead - 1] == row) {
    Pack<T, W> packs[kAhead];
#pragma unroll
    for (int a = 0; a < kAhead; ++a)
      packs[a] = load<T, W>(grad_out + static_cast<std::int64_t>(tokens[i + a]) * columns + column);
#pragma unroll
    for (int a = 0; a < kAhead; ++a)
#pragma unroll
      for (int lane = 0; lane < W; ++lane) sums[lane] += to_float(packs[a].x[lane]);
    i += kAhead;
  }
  for (; i < count && keys[i] == row; ++i) {
    const Pack<T, W> pack = load<T, W>(grad_out + static_cast<std::int64_t>(tokens[i]) * columns + column);
#pragma unroll
    for (int lane = 0; lane < W; ++lane) sums[lane] += to_float(pack.x[lane]);
  }
  float* to = grad_table + static_cast<std::int64_t>(row) * columns + column;
#pragma unroll
  for (int lane = 0; lane < W; ++lane) to[lane] += sums[lane];
}

int key_bits(std::int64_t table_rows) {
  int bits = 1;
  while ((std::int64_t{1} << bits) <= table_rows) ++bits;
  return bits;
}

std::size_t rounded(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

std::size_t sort_bytes(std::int64_t count, int bits) {
  std::size_t bytes = 0;
  const std::uint32_t* in = nullptr;
  std::uint32_t* out = nullptr;
  check(cub::DeviceRadixSort::SortPairs(nullptr, bytes, in, out, in, out, static_cast<int>(count), 0, bits),
        "sort of tokens");
  return bytes;
}

}  // namespace

void embedding_forward(const Target& target, DType type, const std::int32_t* ids, std::int64_t count,
                       std::int64_t columns, const void* table, std::int64_t first_row, std::int64_t table_rows,
                       bool accumulate, void* out) {
  if (count * columns == 0) return;
  with_compute_type(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto run = [&](auto width) {
      constexpr int W = decltype(width)::value;
      const dim3 grid(static_cast<unsigned>(count), grid_of(columns, kThreads * W));
      forward_kernel<T, W><<<grid, kThreads, 0, target.stream>>>(ids, columns, static_cast<const T*>(table), first_row,
                                                                 table_rows, accumulate, static_cast<T*>(out));
    };
    if (columns % kPackOf<T> == 0 && aligned({table, out}))
      run(std::integral_constant<int, kPackOf<T>>{});
    else
      run(std::integral_constant<int, 1>{});
  });
  check_launch("embedding_forward");
}

std::size_t embedding_backward_scratch(std::int64_t count, std::int64_t table_rows) {
  if (count == 0) return 0;
  return 4 * rounded(static_cast<std::size_t>(count) * 4) + sort_bytes(count, key_bits(table_rows));
}

void embedding_backward(const Target& target, DType type, const std::int32_t* ids, std::int64_t count,
                        std::int64_t columns, const void* grad_out, std::int64_t first_row, std::int64_t table_rows,
                        float* grad_table, void* scratch, std::size_t scratch_bytes) {
  if (count * columns * table_rows == 0) return;
  const std::size_t list = rounded(static_cast<std::size_t>(count) * 4);
  auto* bytes = static_cast<std::byte*>(scratch);
  std::uint32_t* lists[4];
  for (std::size_t i = 0; i < 4; ++i) lists[i] = reinterpret_cast<std::uint32_t*>(bytes + i * list);
  keys_kernel<<<grid_of(count, kThreads), kThreads, 0, target.stream>>>(ids, count, first_row, table_rows, lists[0],
                                                                        lists[1]);
  check_launch("embedding keys");
  std::size_t rest = scratch_bytes - 4 * list;
  check(cub::DeviceRadixSort::SortPairs(bytes + 4 * list, rest, lists[0], lists[2], lists[1], lists[3],
                                        static_cast<int>(count), 0, key_bits(table_rows), target.stream),
        "sort of tokens");
  with_compute_type(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto run = [&](auto width) {
      constexpr int W = decltype(width)::value;
      const dim3 grid(grid_of(count, kThreads / kWarp), grid_of(columns, kWarp * W));
      backward_kernel<T, W><<<grid, kThreads, 0, target.stream>>>(lists[2], lists[3], count, columns,
                                                                  static_cast<const T*>(grad_out),
                                                                  static_cast<std::uint32_t>(table_rows), grad_table);
    };
    if (columns % kPackOf<T> == 0 && aligned({grad_out}))
      run(std::integral_constant<int, kPackOf<T>>{});
    else
      run(std::integral_constant<int, 1>{});
  });
  check_launch("embedding_backward");
}

}  // namespace railyard::cuda
