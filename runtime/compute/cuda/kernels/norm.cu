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

Spread spread_of(const NormShape& shape, bool is_aligned) {
  const int full = shape.type == DType::kFloat32 ? kPackOf<float> : kPackOf<__nv_bfloat16>;
  const int width = is_aligned && shape.columns % full == 0 ? full : 1;
  const std::int64_t accesses = divide_up<std::int64_t>(shape.columns, width);
  int packs = width == 1 ? kMostPacks : 1;  // single elements have one kernel only
  while (packs < kMostPacks && divide_up<std::int64_t>(accesses, packs) > kMostThreads) packs *= 2;
  const std::int64_t threads = divide_up<std::int64_t>(divide_up<std::int64_t>(accesses, packs), kWarp) * kWarp;
  return {width, packs, static_cast<int>(std::min<std::int64_t>(threads, 1 << 20))};
}

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

template <class T, int W, int P>
struct Row {
  Pack<T, W> grad[P], x[P];
};

template <class T, int W, int P>
__device__ __forceinline__ void load_row(Row<T, W, P>& to, const T* grad_y, const T* x, std::int64_t row,
                                         std::int64_t columns, int first, int step) {
#pragma unroll
  for (int p = 0; p < P; ++p) {
    const int column = first + p * step;
    if (column < columns) {
      to.grad[p] = load<T, W>(grad_y + row * columns + column);
      to.x[p] = load<T, W>(x + row * columns + column);
    }
  }
}

// A block takes every gridDim.x-th row, the next one loaded while one is summed, and writes its sums for the weight and
// the bias at row blockIdx.x of their partial sums (null: not wanted).
template <class T, int W, int P, bool kCenter>
__global__ void __launch_bounds__(kMostThreads)
    norm_backward_kernel(NormShape shape, const T* grad_y, const T* x, const T* weight, const float* mean,
                         const float* rstd, const T* addend, T* grad_x, float* weight_parts, float* bias_parts) {
  __shared__ float shared[2][2 * kWarp];
  const std::int64_t columns = shape.columns;
  const int first = static_cast<int>(threadIdx.x) * W, step = static_cast<int>(blockDim.x) * W;
  float scale[P][W], grad_weight[P][W] = {}, grad_bias[kCenter ? P : 1][kCenter ? W : 1] = {};
#pragma unroll
  for (int p = 0; p < P; ++p) {
    if (first + p * step < columns) {
      const Pack<T, W> w = load<T, W>(weight + first + p * step);
#pragma unroll
      for (int lane = 0; lane < W; ++lane) scale[p][lane] = to_float(w.x[lane]) + shape.weight_offset;
    }
  }
  constexpr bool kAhead = P <= 2;  // more do not fit the registers
  Row<T, W, P> current, next;
  std::int64_t row = blockIdx.x;
  if (row < shape.rows) load_row(current, grad_y, x, row, columns, first, step);
  for (int turn = 0; row < shape.rows; row += gridDim.x, turn ^= 1) {
    if (kAhead && row + gridDim.x < shape.rows) load_row(next, grad_y, x, row + gridDim.x, columns, first, step);
    Pack<T, W> extra[P];
    if (addend != nullptr) {
#pragma unroll
      for (int p = 0; p < P; ++p)
        if (first + p * step < columns) extra[p] = load<T, W>(addend + row * columns + first + p * step);
    }
    const float inverse = rstd[row], average = kCenter ? mean[row] : 0.0F;
    float sums[2] = {0.0F, 0.0F};  // of g and of g * x_hat, g being the gradient before the weight
#pragma unroll
    for (int p = 0; p < P; ++p) {
      if (first + p * step < columns) {
#pragma unroll
        for (int lane = 0; lane < W; ++lane) {
          const float grad = to_float(current.grad[p].x[lane]);
          const float normed = (to_float(current.x[p].x[lane]) - average) * inverse;
          grad_weight[p][lane] += grad * normed;
          if constexpr (kCenter) grad_bias[p][lane] += grad;
          if constexpr (kCenter) sums[0] += grad * scale[p][lane];
          sums[1] += grad * scale[p][lane] * normed;
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
        Pack<T, W> out;
#pragma unroll
        for (int lane = 0; lane < W; ++lane) {
          const float normed = (to_float(current.x[p].x[lane]) - average) * inverse;
          float value =
              (to_float(current.grad[p].x[lane]) * scale[p][lane] - mean_grad - normed * mean_product) * inverse;
          if (addend != nullptr) value += to_float(extra[p].x[lane]);
          out.x[lane] = from_float<T>(value);
        }
        store(grad_x + row * columns + column, out);
      }
    }
    if constexpr (kAhead) {
      current = next;
    } else if (row + gridDim.x < shape.rows) {
      load_row(current, grad_y, x, row + gridDim.x, columns, first, step);
    }
  }
  const std::int64_t part = static_cast<std::int64_t>(blockIdx.x) * columns;
#pragma unroll
  for (int p = 0; p < P; ++p) {
    const int column = first + p * step;
    if (column >= columns) continue;
#pragma unroll
    for (int lane = 0; lane < W; ++lane) {
      if (weight_parts != nullptr) weight_parts[part + column + lane] = grad_weight[p][lane];
      if constexpr (kCenter)
        if (bias_parts != nullptr) bias_parts[part + column + lane] = grad_bias[p][lane];
    }
  }
}

std::int64_t backward_blocks(const Target& target, const NormShape& shape, const Spread& spread) {
  const std::int64_t per_processor = std::clamp<std::int64_t>(1536 / spread.threads, 1, 12);
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

bool norm_supported(const NormShape& shape) { return spread_of(shape, true).threads <= kMostThreads; }

void norm_forward(const Target& target, const NormShape& shape, const void* x, const void* weight, const void* bias,
                  float epsilon, void* y, float* mean, float* rstd) {
  if (shape.rows == 0) return;
  const Spread spread = spread_of(shape, aligned({x, weight, bias, y}));
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
  const std::int64_t most = std::max(backward_blocks(target, shape, spread_of(shape, false)),
                                     backward_blocks(target, shape, spread_of(shape, true)));
  return 2 * most * shape.columns;
}

void norm_backward(const Target& target, const NormShape& shape, const void* grad_y, const void* x, const void* weight,
                   const float* mean, const float* rstd, const void* addend, void* grad_x, float* grad_weight,
                   float* grad_bias, float* scratch) {
  if (shape.rows == 0) return;
  const Spread spread = spread_of(shape, aligned({grad_y, x, weight, addend, grad_x}));
  const std::int64_t blocks = backward_blocks(target, shape, spread);
  float* weight_parts = grad_weight == nullptr ? nullptr : scratch;
  float* bias_parts = grad_bias == nullptr ? nullptr : scratch + blocks * shape.columns;
  with_compute_type(shape.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    with_spread<T>(spread, [&](auto width, auto packs) {
      const auto run = [&](auto center) {
        norm_backward_kernel<T, decltype(width)::value, decltype(packs)::value, decltype(center)::value>
            <<<static_cast<unsigned>(blocks), static_cast<unsigned>(spread.threads), 0, target.stream>>>(
                shape, static_cast<const T*>(grad_y), static_cast<const T*>(x), static_cast<const T*>(weight), mean,
                rstd, static_cast<const T*>(addend), static_cast<T*>(grad_x), weight_parts, bias_parts);
      };
      if (shape.center)
        run(std::true_type{});
      else
        run(std::false_type{});
    });
  });
  check_launch("norm_backward");
  if (grad_weight != nullptr) sum_parts(target, weight_parts, blocks, shape.columns, grad_weight);
  if (grad_bias != nullptr) sum_parts(target, bias_parts, blocks, shape.columns, grad_bias);
}

}  // namespace railyard::cuda
