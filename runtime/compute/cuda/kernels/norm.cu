// Layer norm and RMS norm, forward and backward. A block does one row at a time and keeps it in registers.
#include <algorithm>

#include "runtime/compute/cuda/kernels/column_sum.cuh"

namespace railyard::cuda {
namespace {

constexpr int kMostThreads = 512;
constexpr int kMostPacks = 8;

// How a row is spread over a block: `packs` accesses of `width` elements a thread.
struct Spread {
  int width, packs, threads;
};

// Several accesses a thread keep more loads in flight, and fewer threads wait for each other; `wanted` is what the
// registers hold. Single elements have one kernel only.
Spread spread_of(const NormShape& shape, bool is_aligned, int wanted) {
  const int full = shape.type == DType::kFloat32 ? kPackOf<float> : kPackOf<__nv_bfloat16>;
  const int width = is_aligned && shape.columns % full == 0 ? full : 1;
  const std::int64_t accesses = divide_up<std::int64_t>(shape.columns, width);
  int packs = 1;
  while (packs < wanted && accesses > static_cast<std::int64_t>(packs) * kWarp) packs *= 2;
  while (packs < kMostPacks && divide_up<std::int64_t>(accesses, packs) > kMostThreads) packs *= 2;
  if (width == 1) packs = kMostPacks;
  const std::int64_t threads = divide_up<std::int64_t>(divide_up<std::int64_t>(accesses, packs), kWarp) * kWarp;
  return {width, packs, static_cast<int>(std::min<std::int64_t>(threads, 1 << 20))};
}

constexpr int kWantedPacks = 4;
constexpr int kWantedPacksBackward = 1;  // three inputs, of two rows at once
constexpr std::size_t kMostSharedBytes = 160 * 1024;

template <class T, int W, int P>
__global__ void __launch_bounds__(kMostThreads)
    norm_forward_kernel(NormShape shape, const T* x, const T* weight, const T* bias, float epsilon, T* y, float* mean,
                        float* rstd) {
  __shared__ float shared[2][kWarp];
  const std::int64_t row = blockIdx.x, columns = shape.columns;
  const int first = static_cast<int>(threadIdx.x) * W, step = static_cast<int>(blockDim.x) * W;
  float values[P][W];
  float sum[1] = {0.0F};
#pragma unroll
  for (int p = 0; p < P; ++p) {
    const int column = first + p * step;
    if (column < columns) {
      const Pack<T, W> pack = load<T, W>(x + row * columns + column);
#pragma unroll
      for (int lane = 0; lane < W; ++lane) {
        values[p][lane] = to_float(pack.x[lane]);
        sum[0] += shape.center ? values[p][lane] : values[p][lane] * values[p][lane];
      }
    }
  }
  block_sum(sum, shared[0]);
  float average = 0.0F, variance = sum[0] / static_cast<float>(columns);
  if (shape.center) {
    average = variance;
    float squares[1] = {0.0F};
#pragma unroll
    for (int p = 0; p < P; ++p) {
      if (first + p * step < columns) {
#pragma unroll
        for (int lane = 0; lane < W; ++lane) squares[0] += (values[p][lane] - average) * (values[p][lane] - average);
      }
    }
    block_sum(squares, shared[1]);
    variance = squares[0] / static_cast<float>(columns);
  }
  const float inverse = 1.0F / sqrtf(variance + epsilon);
  if (threadIdx.x == 0) {
    if (shape.center) mean[row] = average;
    rstd[row] = inverse;
  }
#pragma unroll
  for (int p = 0; p < P; ++p) {
    const int column = first + p * step;
    if (column < columns) {
      const Pack<T, W> w = load<T, W>(weight + column);
      Pack<T, W> b{}, out;
      if (bias != nullptr) b = load<T, W>(bias + column);
#pragma unroll
      for (int lane = 0; lane < W; ++lane) {
        float value = (values[p][lane] - average) * inverse * (to_float(w.x[lane]) + shape.weight_offset);
        if (bias != nullptr) value += to_float(b.x[lane]);
        out.x[lane] = from_float<T>(value);
      }
      store(y + row * columns + column, out);
    }
  }
}

// Sums that a thread keeps in shared memory, for columns that are its own: piece h of pack p lies beside those of the
// other threads, so that accesses do not collide.
template <int W, int P>
struct Totals {
  static constexpr int kPiece = W < 4 ? W : 4;
  float* memory;
  __device__ __forceinline__ Pack<float, kPiece>& at(int p, int h) const {
    return reinterpret_cast<Pack<float, kPiece>*>(
        memory)[(p * (W / kPiece) + h) * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x)];
  }
};

template <class T, int W, int P>
__device__ __forceinline__ void write_totals(const Totals<W, P>& totals, float* parts, std::int64_t columns, int first,
                                             int step) {
  if (parts == nullptr) return;
  constexpr int kPiece = Totals<W, P>::kPiece;
#pragma unroll
  for (int p = 0; p < P; ++p) {
    const int column = first + p * step;
    if (column >= columns) continue;
#pragma unroll
    for (int lane = 0; lane < W; ++lane)
      parts[static_cast<std::int64_t>(blockIdx.x) * columns + column + lane] =
          totals.at(p, lane / kPiece).x[lane % kPiece];
  }
}

// A block takes every gridDim.x-th row and writes its sums for the weight and the bias at row blockIdx.x of their
// partial sums (null: not wanted).
template <class T, int W, int P, bool kCenter>
__global__ void __launch_bounds__(kMostThreads, 2)
    norm_backward_kernel(NormShape shape, const T* grad_y, const T* x, const T* weight, const float* mean,
                         const float* rstd, const T* addend, T* grad_x, float* weight_parts, float* bias_parts) {
  __shared__ float shared[2][2 * kWarp];
  extern __shared__ __align__(16) float sums_of_columns[];
  constexpr int kPiece = Totals<W, P>::kPiece;
  const std::int64_t columns = shape.columns;
  const int first = static_cast<int>(threadIdx.x) * W, step = static_cast<int>(blockDim.x) * W;
  const Totals<W, P> weight_totals{sums_of_columns}, bias_totals{sums_of_columns + P * step};
#pragma unroll
  for (int p = 0; p < P; ++p)
#pragma unroll
    for (int h = 0; h < W / kPiece; ++h) {
      weight_totals.at(p, h) = {};
      if constexpr (kCenter) bias_totals.at(p, h) = {};
    }
  // The next row is on its way while the block adds up the one at hand.
  struct Row {
    Pack<T, W> grads[P], inputs[P], extra[P];
  };
  Row next{};
  const auto fetch = [&](std::int64_t row) {
    if (row >= shape.rows) return;
#pragma unroll
    for (int p = 0; p < P; ++p) {
      const int column = first + p * step;
      if (column < columns) {
        next.grads[p] = load<T, W>(grad_y + row * columns + column);
        next.inputs[p] = load<T, W>(x + row * columns + column);
        if (addend != nullptr) next.extra[p] = load<T, W>(addend + row * columns + column);
      }
    }
  };
  int turn = 0;
  fetch(blockIdx.x);
  for (std::int64_t row = blockIdx.x; row < shape.rows; row += gridDim.x, turn ^= 1) {
    const Row at = next;
    const auto& [grads, inputs, extra] = at;
    fetch(row + gridDim.x);
    const float inverse = rstd[row], average = kCenter ? mean[row] : 0.0F;
    float sums[2] = {0.0F, 0.0F};  // of g and of g * x_hat, g being the gradient before the weight
#pragma unroll
    for (int p = 0; p < P; ++p) {
      const int column = first + p * step;
      if (column < columns) {
        const Pack<T, W> scale = load<T, W>(weight + column);
#pragma unroll
        for (int lane = 0; lane < W; ++lane) {
          const float scaled = to_float(grads[p].x[lane]) * (to_float(scale.x[lane]) + shape.weight_offset);
          if constexpr (kCenter) sums[0] += scaled;
          sums[1] += scaled * ((to_float(inputs[p].x[lane]) - average) * inverse);
        }
      }
    }
    block_sum(sums, shared[turn]);
    const float mean_grad = kCenter ? sums[0] / static_cast<float>(columns) : 0.0F;
    const float mean_product = sums[1] / static_cast<float>(columns);
#pragma unroll
    for (int p = 0; p < P; ++p) {
      const int column = first + p * step;
      if (column < columns) {
        const Pack<T, W> scale = load<T, W>(weight + column);
        Pack<T, W> out;
#pragma unroll
        for (int h = 0; h < W / kPiece; ++h) {
          Pack<float, kPiece> weight_total = weight_totals.at(p, h), bias_total{};
          if constexpr (kCenter) bias_total = bias_totals.at(p, h);
#pragma unroll
          for (int i = 0; i < kPiece; ++i) {
            const int lane = h * kPiece + i;
            const float grad = to_float(grads[p].x[lane]);
            const float normed = (to_float(inputs[p].x[lane]) - average) * inverse;
            const float scaled = grad * (to_float(scale.x[lane]) + shape.weight_offset);
            float value = (scaled - mean_grad - normed * mean_product) * inverse;
            if (addend != nullptr) value += to_float(extra[p].x[lane]);
            out.x[lane] = from_float<T>(value);
            weight_total.x[i] += grad * normed;
            if constexpr (kCenter) bias_total.x[i] += grad;
          }
          weight_totals.at(p, h) = weight_total;
          if constexpr (kCenter) bias_totals.at(p, h) = bias_total;
        }
        store(grad_x + row * columns + column, out);
      }
    }
  }
  write_totals<T>(weight_totals, weight_parts, columns, first, step);
  if constexpr (kCenter) write_totals<T>(bias_totals, bias_parts, columns, first, step);
}

std::size_t backward_shared_bytes(const NormShape& shape, const Spread& spread) {
  return sizeof(float) * static_cast<std::size_t>(spread.packs * spread.width * spread.threads) *
         (shape.center ? 2 : 1);
}

std::int64_t backward_blocks(const Target& target, const NormShape& shape, const Spread& spread) {
  const std::int64_t per_processor = std::clamp<std::int64_t>(2 * kMostThreads / spread.threads, 1, 16);
  return std::min(shape.rows, target.processors * per_processor);
}

// f(width, packs) with both as compile-time numbers.
template <class T, class F>
void with_spread(const Spread& spread, F&& f) {
  constexpr std::integral_constant<int, kPackOf<T>> full{};
  if (spread.width == 1) return f(std::integral_constant<int, 1>{}, std::integral_constant<int, kMostPacks>{});
  if (spread.packs == 1) return f(full, std::integral_constant<int, 1>{});
  if (spread.packs == 2) return f(full, std::integral_constant<int, 2>{});
  if (spread.packs == 4) return f(full, std::integral_constant<int, 4>{});
  return f(full, std::integral_constant<int, 8>{});
}

}  // namespace

bool norm_supported(const NormShape& shape) {
  const Spread spread = spread_of(shape, true, kWantedPacksBackward);
  return spread.threads <= kMostThreads && backward_shared_bytes(shape, spread) <= kMostSharedBytes;
}

void norm_forward(const Target& target, const NormShape& shape, const void* x, const void* weight, const void* bias,
                  float epsilon, void* y, float* mean, float* rstd) {
  if (shape.rows == 0) return;
  const Spread spread = spread_of(shape, aligned({x, weight, bias, y}), kWantedPacks);
  with_compute_type(shape.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    with_spread<T>(spread, [&](auto width, auto packs) {
      norm_forward_kernel<T, decltype(width)::value, decltype(packs)::value>
          <<<static_cast<unsigned>(shape.rows), static_cast<unsigned>(spread.threads), 0, target.stream>>>(
              shape, static_cast<const T*>(x), static_cast<const T*>(weight), static_cast<const T*>(bias), epsilon,
              static_cast<T*>(y), mean, rstd);
    });
  });
  check_launch("norm_forward");
}

std::int64_t norm_backward_scratch(const Target& target, const NormShape& shape) {
  const std::int64_t most = std::max(backward_blocks(target, shape, spread_of(shape, false, kWantedPacksBackward)),
                                     backward_blocks(target, shape, spread_of(shape, true, kWantedPacksBackward)));
  return std::max(2 * most * shape.columns, column_sum_scratch(shape.rows, shape.columns));
}

void norm_backward(const Target& target, const NormShape& shape, const void* grad_y, const void* x, const void* weight,
                   const float* mean, const float* rstd, const void* addend, void* grad_x, float* grad_weight,
                   float* grad_bias, float* scratch) {
  if (shape.rows == 0) return;
  const Spread spread = spread_of(shape, aligned({grad_y, x, weight, addend, grad_x}), kWantedPacksBackward);
  const std::int64_t blocks = backward_blocks(target, shape, spread);
  float* weight_parts = grad_weight == nullptr ? nullptr : scratch;
  float* bias_parts = grad_bias == nullptr || !shape.center ? nullptr : scratch + blocks * shape.columns;
  with_compute_type(shape.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    with_spread<T>(spread, [&](auto width, auto packs) {
      const auto run = [&](auto center) {
        const auto kernel =
            norm_backward_kernel<T, decltype(width)::value, decltype(packs)::value, decltype(center)::value>;
        const std::size_t bytes = backward_shared_bytes(shape, spread);
        allow_shared_memory(kernel, bytes);
        kernel<<<static_cast<unsigned>(blocks), static_cast<unsigned>(spread.threads), bytes, target.stream>>>(
            shape, static_cast<const T*>(grad_y), static_cast<const T*>(x), static_cast<const T*>(weight), mean, rstd,
            static_cast<const T*>(addend), static_cast<T*>(grad_x), weight_parts, bias_parts);
      };
      if (shape.center)
        run(std::true_type{});
      else
        run(std::false_type{});
    });
  });
  check_launch("norm_backward");
  if (grad_weight != nullptr) sum_parts(target, weight_parts, blocks, shape.columns, grad_weight);
  if (grad_bias == nullptr) return;
  if (shape.center)
    sum_parts(target, bias_parts, blocks, shape.columns, grad_bias);
  else
    column_sum(target, shape.type, grad_y, grad_bias, shape.rows, shape.columns, scratch);
}

}  // namespace railyard::cuda
