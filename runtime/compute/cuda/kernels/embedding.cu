// Embedding rows out of the table, and their gradient: tokens sorted by row and added in that order, so that runs agree
// bit by bit.
#include <cub/device/device_radix_sort.cuh>

#include "runtime/compute/cuda/kernels/launch.cuh"

namespace railyard::cuda {
namespace {

constexpr int kThreads = 256;

template <class T, int W>
__global__ void forward_kernel(const std::int32_t* ids, std::int64_t columns, const T* table, std::int64_t first_row,
                               std::int64_t table_rows, bool accumulate, T* out) {
  const auto [token, column] = row_place<kThreads, W>(columns);
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

// A warp takes kSegment sorted tokens and 32 W columns. Sums of rows that lie wholly in its segment go to the table,
// those of rows that reach over its ends to `partial` [segments, 2, columns]: first what came from before, then what
// goes on.
constexpr int kSegment = 32;

template <class T, int W>
__global__ void segment_kernel(const std::uint32_t* keys, const std::uint32_t* tokens, std::int64_t count,
                               std::int64_t columns, const T* grad_out, std::uint32_t table_rows, float* grad_table,
                               float* partial) {
  const std::int64_t segment = static_cast<std::int64_t>(blockIdx.x) * (kThreads / kWarp) + threadIdx.x / kWarp;
  const std::int64_t begin = segment * kSegment, end = min(count, begin + kSegment);
  const std::int64_t column = (static_cast<std::int64_t>(blockIdx.y) * kWarp + threadIdx.x % kWarp) * W;
  if (begin >= count || column >= columns) return;
  for (std::int64_t i = begin; i < end;) {
    const std::uint32_t row = keys[i];
    if (row >= table_rows) return;  // as all that follow
    const bool from_before = i == begin && begin > 0 && keys[begin - 1] == row;
    float sums[W] = {};
    const auto take = [&](const Pack<T, W>& pack) {
#pragma unroll
      for (int lane = 0; lane < W; ++lane) sums[lane] += to_float(pack.x[lane]);
    };
    const auto load_token = [&](std::int64_t at) {
      return load<T, W>(grad_out + static_cast<std::int64_t>(tokens[at]) * columns + column);
    };
    constexpr int kAhead = 4;
    while (i + kAhead <= end && keys[i + kAhead - 1] == row) {
      Pack<T, W> packs[kAhead];
#pragma unroll
      for (int ahead = 0; ahead < kAhead; ++ahead) packs[ahead] = load_token(i + ahead);
#pragma unroll
      for (int ahead = 0; ahead < kAhead; ++ahead) take(packs[ahead]);
      i += kAhead;
    }
    for (; i < end && keys[i] == row; ++i) take(load_token(i));
    const bool goes_on = i == end && end < count && keys[end] == row;
    if (from_before || goes_on) {
      float* to = partial + (segment * 2 + (from_before ? 0 : 1)) * columns + column;
#pragma unroll
      for (int lane = 0; lane < W; ++lane) to[lane] = sums[lane];
    } else {
      float* to = grad_table + static_cast<std::int64_t>(row) * columns + column;
#pragma unroll
      for (int lane = 0; lane < W; ++lane) to[lane] += sums[lane];
    }
  }
}

// The warp of the segment in which a long row begins adds up its parts in order.
template <int W>
__global__ void join_kernel(const std::uint32_t* keys, std::int64_t count, std::int64_t columns,
                            std::uint32_t table_rows, const float* partial, float* grad_table) {
  const std::int64_t segment = static_cast<std::int64_t>(blockIdx.x) * (kThreads / kWarp) + threadIdx.x / kWarp;
  const std::int64_t begin = segment * kSegment, end = begin + kSegment;
  const std::int64_t column = (static_cast<std::int64_t>(blockIdx.y) * kWarp + threadIdx.x % kWarp) * W;
  if (end >= count || column >= columns) return;
  const std::uint32_t row = keys[end - 1];
  if (row >= table_rows || keys[end] != row || (begin > 0 && keys[begin - 1] == row)) return;
  float sums[W];
  const float* first = partial + (segment * 2 + 1) * columns + column;
#pragma unroll
  for (int lane = 0; lane < W; ++lane) sums[lane] = first[lane];
  for (std::int64_t next = segment + 1; next * kSegment < count && keys[next * kSegment] == row; ++next) {
#pragma unroll
    for (int lane = 0; lane < W; ++lane) sums[lane] += partial[next * 2 * columns + column + lane];
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

// Two rows of sums for each segment.
std::size_t partial_bytes(std::int64_t count, std::int64_t columns) {
  return rounded(static_cast<std::size_t>(divide_up<std::int64_t>(count, kSegment) * 2 * columns) * sizeof(float));
}

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
      forward_kernel<T, W><<<row_grid(count, columns, kThreads, W), kThreads, 0, target.stream>>>(
          ids, columns, static_cast<const T*>(table), first_row, table_rows, accumulate, static_cast<T*>(out));
    };
    if (columns % kPackOf<T> == 0 && aligned({table, out}))
      run(std::integral_constant<int, kPackOf<T>>{});
    else
      run(std::integral_constant<int, 1>{});
  });
  check_launch("embedding_forward");
}

std::size_t embedding_backward_scratch(std::int64_t count, std::int64_t columns, std::int64_t table_rows) {
  if (count == 0) return 0;
  return 4 * rounded(static_cast<std::size_t>(count) * 4) + partial_bytes(count, columns) +
         sort_bytes(count, key_bits(table_rows));
}

void embedding_backward(const Target& target, DType type, const std::int32_t* ids, std::int64_t count,
                        std::int64_t columns, const void* grad_out, std::int64_t first_row, std::int64_t table_rows,
                        float* grad_table, void* scratch, std::size_t scratch_bytes) {
  if (count * columns * table_rows == 0) return;
  const std::size_t list = rounded(static_cast<std::size_t>(count) * 4);
  auto* bytes = static_cast<std::byte*>(scratch);
  std::uint32_t* lists[4];
  for (std::size_t i = 0; i < 4; ++i) lists[i] = reinterpret_cast<std::uint32_t*>(bytes + i * list);
  auto* partial = reinterpret_cast<float*>(bytes + 4 * list);
  const std::size_t before_sort = 4 * list + partial_bytes(count, columns);
  keys_kernel<<<grid_of(count, kThreads), kThreads, 0, target.stream>>>(ids, count, first_row, table_rows, lists[0],
                                                                        lists[1]);
  check_launch("embedding keys");
  std::size_t rest = scratch_bytes - before_sort;
  check(cub::DeviceRadixSort::SortPairs(bytes + before_sort, rest, lists[0], lists[2], lists[1], lists[3],
                                        static_cast<int>(count), 0, key_bits(table_rows), target.stream),
        "sort of tokens");
  const auto rows = static_cast<std::uint32_t>(table_rows);
  with_compute_type(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto run = [&](auto width) {
      constexpr int W = decltype(width)::value;
      const dim3 grid(grid_of(divide_up<std::int64_t>(count, kSegment), kThreads / kWarp), grid_of(columns, kWarp * W));
      segment_kernel<T, W><<<grid, kThreads, 0, target.stream>>>(
          lists[2], lists[3], count, columns, static_cast<const T*>(grad_out), rows, grad_table, partial);
      check_launch("embedding_backward");
      join_kernel<W><<<grid, kThreads, 0, target.stream>>>(lists[2], count, columns, rows, partial, grad_table);
    };
    if (columns % kPackOf<T> == 0 && aligned({grad_out}))
      run(std::integral_constant<int, kPackOf<T>>{});
    else
      run(std::integral_constant<int, 1>{});
  });
  check_launch("embedding_backward");
}

}  // namespace railyard::cuda
