// Softmax statistics of vocabulary-parallel logits, their combination into the loss, and the gradient in place.
#include "runtime/compute/cuda/kernels/launch.cuh"

namespace railyard::cuda {
namespace {

constexpr int kThreads = 512;

struct Partial {
  float maximum, sum;  // of exp(x - maximum)
};

__device__ __forceinline__ Partial combine(Partial a, Partial b) {
  const float maximum = fmaxf(a.maximum, b.maximum);
  // Nothing summed yet has no maximum to compare with.
  const float left = a.sum == 0.0F ? 0.0F : a.sum * __expf(a.maximum - maximum);
  const float right = b.sum == 0.0F ? 0.0F : b.sum * __expf(b.maximum - maximum);
  return {maximum, left + right};
}

__device__ __forceinline__ Partial warp_combine(Partial value) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    const Partial other{__shfl_xor_sync(kAllLanes, value.maximum, offset),
                        __shfl_xor_sync(kAllLanes, value.sum, offset)};
    value = combine(value, other);
  }
  return value;
}

// One block a row; every thread keeps a running maximum and sum over its columns.
template <class T, int W>
__global__ void statistics_kernel(Logits shape, const T* logits, float* statistics) {
  __shared__ Partial shared[kThreads / kWarp];
  const std::int64_t row = blockIdx.x;
  const T* x = logits + row * shape.columns;
  const float nothing = __int_as_float(static_cast<int>(0xff800000U));
  Partial partial{nothing, 0.0F};
  const auto take = [&](const Pack<T, W>& pack) {
    float maximum = to_float(pack.x[0]);
#pragma unroll
    for (int lane = 1; lane < W; ++lane) maximum = fmaxf(maximum, to_float(pack.x[lane]));
    if (maximum > partial.maximum) {
      partial.sum *= __expf(partial.maximum - maximum);
      partial.maximum = maximum;
    }
    float sum = 0.0F;
#pragma unroll
    for (int lane = 0; lane < W; ++lane) sum += __expf(to_float(pack.x[lane]) - partial.maximum);
    partial.sum += sum;
  };
  const std::int64_t whole = shape.valid / W * W;
#pragma unroll 4
  for (std::int64_t column = static_cast<std::int64_t>(threadIdx.x) * W; column < whole; column += kThreads * W)
    take(load<T, W>(x + column));
  // The last few columns, one a thread, filled up with themselves far below.
  const std::int64_t last = whole + threadIdx.x;
  if (last < shape.valid) partial = combine(partial, {to_float(x[last]), 1.0F});
  partial = warp_combine(partial);
  if (threadIdx.x % kWarp == 0) shared[threadIdx.x / kWarp] = partial;
  __syncthreads();
  if (threadIdx.x >= kWarp) return;
  partial = warp_combine(threadIdx.x < kThreads / kWarp ? shared[threadIdx.x] : Partial{nothing, 0.0F});
  if (threadIdx.x != 0) return;
  const std::int64_t label = shape.labels[row] - shape.first_column;
  statistics[row * 3] = partial.maximum;
  statistics[row * 3 + 1] = partial.sum;
  statistics[row * 3 + 2] = label >= 0 && label < shape.valid ? to_float(x[label]) : 0.0F;
}

constexpr int kCombineThreads = 1024;

__global__ void combine_kernel(const float* parts, std::int64_t ranks, std::int64_t rows, const float* weights,
                               float* log_sum_exp, double* loss) {
  __shared__ double shared[kWarp];
  double sum[1] = {0.0};
  for (std::int64_t row = threadIdx.x; row < rows; row += kCombineThreads) {
    float maximum = __int_as_float(static_cast<int>(0xff800000U)), total = 0.0F, label = 0.0F;
    for (std::int64_t rank = 0; rank < ranks; ++rank) maximum = fmaxf(maximum, parts[(rank * rows + row) * 3]);
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const float* at = parts + (rank * rows + row) * 3;
      if (at[1] != 0.0F) total += at[1] * expf(at[0] - maximum);
      label += at[2];
    }
    const float value = maximum + logf(total);
    log_sum_exp[row] = value;
    if (weights[row] != 0.0F)
      sum[0] += static_cast<double>(weights[row]) * (static_cast<double>(value) - static_cast<double>(label));
  }
  block_sum(sum, shared);
  if (threadIdx.x == 0) *loss += sum[0];
}

template <class T, int W>
__global__ void gradient_kernel(Logits shape, T* logits, const float* log_sum_exp, const float* weights, float factor) {
  const std::int64_t row = blockIdx.x;
  T* x = logits + row * shape.columns;
  const float scale = weights[row] * factor, lse = log_sum_exp[row];
  const std::int64_t label = shape.labels[row] - shape.first_column;
#pragma unroll 2
  for (std::int64_t column = static_cast<std::int64_t>(threadIdx.x) * W; column < shape.columns;
       column += kThreads * W) {
    Pack<T, W> pack = load<T, W>(x + column);
#pragma unroll
    for (int lane = 0; lane < W; ++lane) {
      const std::int64_t at = column + lane;
      // A row that does not count stays out of it, whatever its logits are.
      float gradient = scale == 0.0F ? 0.0F : __expf(to_float(pack.x[lane]) - lse) * scale;
      if (at == label) gradient -= scale;
      pack.x[lane] = from_float<T>(at < shape.valid ? gradient : 0.0F);
    }
    store(x + column, pack);
  }
}

template <class F>
void with_width(const Logits& shape, const void* logits, F&& f) {
  with_compute_type(shape.type, [&](auto tag) {
    constexpr int kFull = kPackOf<typename decltype(tag)::type>;
    if (shape.columns % kFull == 0 && aligned({logits}))
      f(tag, std::integral_constant<int, kFull>{});
    else
      f(tag, std::integral_constant<int, 1>{});
  });
}

}  // namespace

void softmax_statistics(const Target& target, const Logits& shape, const void* logits, float* statistics) {
  if (shape.rows == 0) return;
  with_width(shape, logits, [&](auto tag, auto width) {
    using T = typename decltype(tag)::type;
    statistics_kernel<T, decltype(width)::value><<<static_cast<unsigned>(shape.rows), kThreads, 0, target.stream>>>(
        shape, static_cast<const T*>(logits), statistics);
  });
  check_launch("softmax_statistics");
}

void combine_statistics(const Target& target, const float* parts, std::int64_t ranks, std::int64_t rows,
                        const float* weights, float* log_sum_exp, double* loss) {
  if (rows == 0) return;
  combine_kernel<<<1, kCombineThreads, 0, target.stream>>>(parts, ranks, rows, weights, log_sum_exp, loss);
  check_launch("combine_statistics");
}

void cross_entropy_gradient(const Target& target, const Logits& shape, void* logits, const float* log_sum_exp,
                            const float* weights, float factor) {
  if (shape.rows * shape.columns == 0) return;
  with_width(shape, logits, [&](auto tag, auto width) {
    using T = typename decltype(tag)::type;
    gradient_kernel<T, decltype(width)::value><<<static_cast<unsigned>(shape.rows), kThreads, 0, target.stream>>>(
        shape, static_cast<T*>(logits), log_sum_exp, weights, factor);
  });
  check_launch("cross_entropy_gradient");
}

}  // namespace railyard::cuda
