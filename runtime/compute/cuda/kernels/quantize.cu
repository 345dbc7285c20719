// 8-bit copies of matrices, as they are and transposed, in one pass: a block takes 128 x 128 elements, a thread 8 x 8
// of them, and the transposed bytes go through shared memory.
#include <cuda_fp8.h>

#include "runtime/compute/cuda/kernels/launch.cuh"

namespace railyard::cuda {
namespace {

constexpr int kTile = 128;
constexpr int kThreads = 256;
constexpr int kSide = 8;               // of a thread's part
constexpr int kParts = kTile / kSide;  // of a tile's side

__device__ __forceinline__ float largest(bool e4m3) { return e4m3 ? 448.0F : 57344.0F; }

// Zero and not finite maxima have no scale of their own.
__device__ __forceinline__ float scale_for(float maximum, bool e4m3) {
  return maximum > 0.0F && isfinite(maximum) ? maximum / largest(e4m3) : 1.0F;
}

// Eight numbers, each times its factor.
template <bool kE4m3, class Value, class Factor>
__device__ __forceinline__ Pack<std::uint8_t, 8> to_bytes(const Value& value, const Factor& factor) {
  union {
    std::uint16_t pairs[4];
    Pack<std::uint8_t, 8> bytes;
  } result;
#pragma unroll
  for (int i = 0; i < 4; ++i)
    result.pairs[i] =
        __nv_cvt_float2_to_fp8x2(make_float2(value(2 * i) * factor(2 * i), value(2 * i + 1) * factor(2 * i + 1)),
                                 __NV_SATFINITE, kE4m3 ? __NV_E4M3 : __NV_E5M2);
  return result.bytes;
}

// maximum = max(maximum, value) for values that are not negative; their bits are ordered as they are, NaN on top.
__device__ __forceinline__ void raise(float* maximum, float value) {
  atomicMax(reinterpret_cast<int*>(maximum), __float_as_int(value));
}
__device__ __forceinline__ float larger(float a, float b) {
  return __int_as_float(max(__float_as_int(a), __float_as_int(b)));
}
template <int kLanes>
__device__ __forceinline__ float lanes_maximum(float value) {
#pragma unroll
  for (int offset = kLanes / 2; offset > 0; offset /= 2)
    value = larger(value, __shfl_xor_sync(kAllLanes, value, offset));
  return value;
}

template <class T>
struct Part {
  Pack<T, kSide> rows[kSide];
};

template <class T, QuantizeMode kMode, bool kE4m3>
__global__ void __launch_bounds__(kThreads) quantize_kernel(QuantizeArguments a) {
  __shared__ __align__(16) std::uint8_t turned[kTile * kTile];
  __shared__ float column_maxima[kMode == QuantizeMode::kRow128 ? kParts : 1][kTile];
  __shared__ float warp_maxima[kThreads / kWarp];
  const int thread = static_cast<int>(threadIdx.x), part_row = thread / kParts, part_column = thread % kParts;
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.y) * kTile + part_row * kSide;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kTile + part_column * kSide;
  const bool inside = row < a.rows && column < a.columns;  // extents are multiples of 8
  Part<T> part{};
  if (inside) {
#pragma unroll
    for (int i = 0; i < kSide; ++i)
      part.rows[i] = load<T, kSide>(static_cast<const T*>(a.in) + (row + i) * a.columns + column);
  }
  float maximum = 0.0F;
  if (kMode == QuantizeMode::kBlock128 || (kMode == QuantizeMode::kTensor && a.maximum != nullptr)) {
#pragma unroll
    for (int i = 0; i < kSide; ++i)
#pragma unroll
      for (int j = 0; j < kSide; ++j) maximum = larger(maximum, fabsf(to_float(part.rows[i].x[j])));
    maximum = lanes_maximum<kWarp>(maximum);
    if (thread % kWarp == 0) warp_maxima[thread / kWarp] = maximum;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kThreads / kWarp; ++i) maximum = larger(maximum, warp_maxima[i]);
  }
  float inverse[kSide], inverse_turned[kSide];  // by row, and by column for the transposed copy
  if constexpr (kMode == QuantizeMode::kTensor) {
    if (a.maximum != nullptr && thread == 0) raise(a.maximum, maximum);
    const float one = 1.0F / *a.scale;
#pragma unroll
    for (int i = 0; i < kSide; ++i) inverse[i] = inverse_turned[i] = one;
  } else if constexpr (kMode == QuantizeMode::kBlock128) {
    const float scale = scale_for(maximum, kE4m3);
    if (thread == 0) {
      if (a.scales != nullptr) a.scales[blockIdx.y * a.scales_stride + blockIdx.x] = scale;
      if (a.scales_turned != nullptr) a.scales_turned[blockIdx.x * a.scales_turned_stride + blockIdx.y] = scale;
    }
#pragma unroll
    for (int i = 0; i < kSide; ++i) inverse[i] = inverse_turned[i] = 1.0F / scale;
  } else {
#pragma unroll
    for (int i = 0; i < kSide; ++i) {
      float row_maximum = 0.0F;
#pragma unroll
      for (int j = 0; j < kSide; ++j) row_maximum = larger(row_maximum, fabsf(to_float(part.rows[i].x[j])));
      const float scale = scale_for(lanes_maximum<kParts>(row_maximum), kE4m3);
      if (part_column == 0 && row + i < a.rows && a.scales != nullptr)
        a.scales[blockIdx.x * a.scales_stride + row + i] = scale;
      inverse[i] = 1.0F / scale;
    }
    if (a.out_turned != nullptr) {
#pragma unroll
      for (int j = 0; j < kSide; ++j) {
        float column_maximum = 0.0F;
#pragma unroll
        for (int i = 0; i < kSide; ++i) column_maximum = larger(column_maximum, fabsf(to_float(part.rows[i].x[j])));
        column_maxima[part_row][part_column * kSide + j] = column_maximum;
      }
      __syncthreads();
#pragma unroll
      for (int j = 0; j < kSide; ++j) {
        float column_maximum = 0.0F;
        for (int p = 0; p < kParts; ++p)
          column_maximum = larger(column_maximum, column_maxima[p][part_column * kSide + j]);
        const float scale = scale_for(column_maximum, kE4m3);
        if (part_row == 0 && column + j < a.columns)
          a.scales_turned[blockIdx.y * a.scales_turned_stride + column + j] = scale;
        inverse_turned[j] = 1.0F / scale;
      }
    }
  }
  if (inside && a.out != nullptr) {
#pragma unroll
    for (int i = 0; i < kSide; ++i)
      store(a.out + (row + i) * a.columns + column,
            to_bytes<kE4m3>([&](int j) { return to_float(part.rows[i].x[j]); }, [&](int) { return inverse[i]; }));
  }
  if (a.out_turned == nullptr) return;
    // Column c of the tile is a row of 128 bytes here; its 8-byte pieces are swapped about, against bank conflicts.
#pragma unroll
  for (int j = 0; j < kSide; ++j)
    store(turned + (part_column * kSide + j) * kTile + ((part_row ^ part_column) * kSide),
          to_bytes<kE4m3>([&](int i) { return to_float(part.rows[i].x[j]); }, [&](int) { return inverse_turned[j]; }));
  __syncthreads();
  for (int c = part_row; c < kTile; c += kParts) {  // sixteen threads write one row of the transposed matrix
    const std::int64_t to_row = static_cast<std::int64_t>(blockIdx.x) * kTile + c;
    const std::int64_t to_column = static_cast<std::int64_t>(blockIdx.y) * kTile + part_column * kSide;
    if (to_row >= a.columns || to_column >= a.rows) continue;
    store(a.out_turned + to_row * a.rows + to_column,
          load<std::uint8_t, kSide>(turned + c * kTile + ((part_column ^ (c / kSide)) * kSide)));
  }
}

template <class T>
__global__ void amax_kernel(const T* in, std::int64_t count, bool is_aligned, float* maximum) {
  __shared__ float shared[kThreads / kWarp];
  constexpr int W = kPackOf<T>;
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const std::int64_t threads = static_cast<std::int64_t>(gridDim.x) * kThreads;
  const std::int64_t whole = is_aligned ? count / W : 0;
  float found = 0.0F;
#pragma unroll 4
  for (std::int64_t i = thread; i < whole; i += threads) {
    const Pack<T, W> pack = load<T, W>(in + i * W);
#pragma unroll
    for (int lane = 0; lane < W; ++lane) found = larger(found, fabsf(to_float(pack.x[lane])));
  }
  for (std::int64_t i = whole * W + thread; i < count; i += threads) found = larger(found, fabsf(to_float(in[i])));
  found = lanes_maximum<kWarp>(found);
  if (threadIdx.x % kWarp == 0) shared[threadIdx.x / kWarp] = found;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (const float other : shared) found = larger(found, other);
  raise(maximum, found);
}

// The same tiles for bytes that are cast already.
__global__ void __launch_bounds__(kThreads)
    transpose_kernel(const std::uint8_t* in, std::int64_t rows, std::int64_t columns, std::uint8_t* out) {
  __shared__ __align__(16) std::uint8_t turned[kTile * kTile];
  const int thread = static_cast<int>(threadIdx.x), part_row = thread / kParts, part_column = thread % kParts;
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.y) * kTile + part_row * kSide;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kTile + part_column * kSide;
  Pack<std::uint8_t, kSide> part[kSide] = {};
  if (row < rows && column < columns) {
#pragma unroll
    for (int i = 0; i < kSide; ++i) part[i] = load<std::uint8_t, kSide>(in + (row + i) * columns + column);
  }
#pragma unroll
  for (int j = 0; j < kSide; ++j) {
    Pack<std::uint8_t, kSide> piece;
#pragma unroll
    for (int i = 0; i < kSide; ++i) piece.x[i] = part[i].x[j];
    store(turned + (part_column * kSide + j) * kTile + ((part_row ^ part_column) * kSide), piece);
  }
  __syncthreads();
  for (int c = part_row; c < kTile; c += kParts) {
    const std::int64_t to_row = static_cast<std::int64_t>(blockIdx.x) * kTile + c;
    const std::int64_t to_column = static_cast<std::int64_t>(blockIdx.y) * kTile + part_column * kSide;
    if (to_row >= columns || to_column >= rows) continue;
    store(out + to_row * rows + to_column,
          load<std::uint8_t, kSide>(turned + c * kTile + ((part_column ^ (c / kSide)) * kSide)));
  }
}

// One block. The history moves on by one, from its end, kThreads numbers at a time.
__global__ void scale_kernel(float* maximum, float* history, std::int64_t length, bool e4m3, float* scale) {
  __shared__ float shared[kThreads / kWarp];
  if (history == nullptr) {
    if (threadIdx.x == 0) *scale = scale_for(*maximum, e4m3);
    return;
  }
  const float newest = isfinite(*maximum) ? *maximum : history[0];
  float found = newest;
  for (std::int64_t end = length; end > 1; end -= kThreads) {
    const std::int64_t i = end - 1 - threadIdx.x;
    const float value = i > 0 ? history[i - 1] : 0.0F;
    __syncthreads();
    if (i > 0) history[i] = value;
    found = larger(found, value);
  }
  found = lanes_maximum<kWarp>(found);
  if (threadIdx.x % kWarp == 0) shared[threadIdx.x / kWarp] = found;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (const float other : shared) found = larger(found, other);
  history[0] = newest;
  *maximum = 0.0F;
  *scale = scale_for(found, e4m3);
}

}  // namespace

void quantize(const Target& target, QuantizeMode mode, DType type, const QuantizeArguments& a) {
  if (a.rows * a.columns == 0) return;
  const dim3 grid(grid_of(a.columns, kTile), grid_of(a.rows, kTile));
  with_compute_type(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto run = [&](auto which) {
      constexpr QuantizeMode kMode = decltype(which)::value;
      const auto kernel = a.e4m3 ? quantize_kernel<T, kMode, true> : quantize_kernel<T, kMode, false>;
      kernel<<<grid, kThreads, 0, target.stream>>>(a);
    };
    if (mode == QuantizeMode::kTensor)
      run(std::integral_constant<QuantizeMode, QuantizeMode::kTensor>{});
    else if (mode == QuantizeMode::kRow128)
      run(std::integral_constant<QuantizeMode, QuantizeMode::kRow128>{});
    else
      run(std::integral_constant<QuantizeMode, QuantizeMode::kBlock128>{});
  });
  check_launch("quantize");
}

void transpose_bytes(const Target& target, const std::uint8_t* in, std::int64_t rows, std::int64_t columns,
                     std::uint8_t* out) {
  if (rows * columns == 0) return;
  transpose_kernel<<<dim3(grid_of(columns, kTile), grid_of(rows, kTile)), kThreads, 0, target.stream>>>(in, rows,
                                                                                                        columns, out);
  check_launch("transpose");
}

void amax(const Target& target, DType type, const void* in, std::int64_t count, float* maximum) {
  if (count == 0) return;
  const auto blocks =
      static_cast<unsigned>(std::min<std::int64_t>(grid_of(count, kThreads * 32), target.processors * 8));
  with_compute_type(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    amax_kernel<<<blocks, kThreads, 0, target.stream>>>(static_cast<const T*>(in), count, aligned({in}), maximum);
  });
  check_launch("amax");
}

void scale_of_maximum(const Target& target, float* maximum, float* history, std::int64_t length, bool e4m3,
                      float* scale) {
  scale_kernel<<<1, kThreads, 0, target.stream>>>(maximum, history, length, e4m3, scale);
  check_launch("scale of the maximum");
}

}  // namespace railyard::cuda
