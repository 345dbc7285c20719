// Global norm, clipping and AdamW over flat ranges.
#include <algorithm>

#include "runtime/compute/cuda/kernels/launch.cuh"

namespace railyard::cuda {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kPerBlock = 32 * 1024;  // elements of a partial sum
constexpr std::int64_t kMostBlocks = 4096;

std::int64_t norm_blocks(std::int64_t count) {
  return std::clamp<std::int64_t>(divide_up(count, kPerBlock), 1, kMostBlocks);
}

__global__ void squares_kernel(const float* data, std::int64_t count, bool is_aligned, double* partial) {
  __shared__ double shared[kWarp];
  double sum[1] = {0.0};
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const std::int64_t threads = static_cast<std::int64_t>(gridDim.x) * kThreads;
  const std::int64_t fours = count / 4;
#pragma unroll 4
  for (std::int64_t i = thread; i < fours; i += threads) {
    Pack<float, 4> pack;
    if (is_aligned) {
      pack = load<float, 4>(data + i * 4);
    } else {
#pragma unroll
      for (int lane = 0; lane < 4; ++lane) pack.x[lane] = data[i * 4 + lane];
    }
    double four = 0.0;
#pragma unroll
    for (int lane = 0; lane < 4; ++lane) four += static_cast<double>(pack.x[lane]) * static_cast<double>(pack.x[lane]);
    sum[0] += four;
  }
  if (thread < count % 4) {
    const double value = data[fours * 4 + thread];
    sum[0] += value * value;
  }
  block_sum(sum, shared);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum[0];
}

__global__ void sum_kernel(const double* partial, std::int64_t parts, double* out) {
  __shared__ double shared[kWarp];
  double sum[1] = {0.0};
  for (std::int64_t i = threadIdx.x; i < parts; i += kThreads) sum[0] += partial[i];
  block_sum(sum, shared);
  if (threadIdx.x == 0) *out += sum[0];
}

__global__ void clip_kernel(const double* sum, float factor, float clip, ScalarPlaces places, float* scalars) {
  const float norm = static_cast<float>(sqrt(*sum) * static_cast<double>(factor));
  scalars[places.gradient_norm] = norm;
  scalars[places.gradient_scale] = clip > 0.0F ? factor * fminf(1.0F, clip / (norm + 1e-6F)) : factor;
  scalars[places.finite] = isfinite(*sum) && isfinite(norm) ? 1.0F : 0.0F;
}

// fp32 weights where they are: in one array, or split over two (dtype.hpp says how).
struct WholeWeights {
  float* weights;
  template <int W>
  __device__ Pack<float, W> read(std::int64_t i) const {
    return load<float, W>(weights + i);
  }
  template <int W>
  __device__ void write(std::int64_t i, const Pack<float, W>& value) const {
    store(weights + i, value);
  }
};
struct SplitWeights {
  std::uint16_t *upper, *lower;
  template <int W>
  __device__ Pack<float, W> read(std::int64_t i) const {
    const Pack<std::uint16_t, W> high = load<std::uint16_t, W>(upper + i), low = load<std::uint16_t, W>(lower + i);
    Pack<float, W> value;
#pragma unroll
    for (int lane = 0; lane < W; ++lane) {
      const unsigned rest = low.x[lane];
      value.x[lane] = __uint_as_float((high.x[lane] - (rest >> 15)) << 16 | rest);
    }
    return value;
  }
  template <int W>
  __device__ void write(std::int64_t i, const Pack<float, W>& value) const {
    Pack<std::uint16_t, W> high, low;
#pragma unroll
    for (int lane = 0; lane < W; ++lane) {
      const unsigned bits = __float_as_uint(value.x[lane]);
      high.x[lane] = static_cast<std::uint16_t>((bits + 0x8000U) >> 16);
      low.x[lane] = static_cast<std::uint16_t>(bits);
    }
    store(upper + i, high);
    store(lower + i, low);
  }
};

template <int W, class Weights>
__device__ __forceinline__ void adamw_update(const AdamWArguments& a, const Weights& weights, std::int64_t i,
                                             float rate, float factor, float correction1, float correction2) {
  const Pack<float, W> grad = load<float, W>(a.grad + i);
  Pack<float, W> m = load<float, W>(a.exp_avg + i), v = load<float, W>(a.exp_avg_sq + i),
                 w = weights.template read<W>(i);
#pragma unroll
  for (int lane = 0; lane < W; ++lane) {
    const float g = grad.x[lane] * factor;
    m.x[lane] = a.beta1 * m.x[lane] + (1.0F - a.beta1) * g;
    v.x[lane] = a.beta2 * v.x[lane] + (1.0F - a.beta2) * g * g;
    w.x[lane] -=
        rate * (m.x[lane] * correction1 / (sqrtf(v.x[lane] * correction2) + a.epsilon) + a.weight_decay * w.x[lane]);
  }
  store(a.exp_avg + i, m);
  store(a.exp_avg_sq + i, v);
  weights.write(i, w);
}

template <int W, class Weights>
__global__ void adamw_kernel(AdamWArguments a, Weights weights, ScalarPlaces places, const float* scalars) {
  if (scalars[places.finite] == 0.0F) return;
  const std::int64_t i = (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) * W;
  const float rate = scalars[places.learning_rate], factor = scalars[places.gradient_scale];
  const float correction1 = 1.0F / scalars[places.bias_correction1],
              correction2 = 1.0F / scalars[places.bias_correction2];
  if (i + W <= a.count) {
    adamw_update<W>(a, weights, i, rate, factor, correction1, correction2);
  } else {
    for (std::int64_t j = i; j < a.count; ++j) adamw_update<1>(a, weights, j, rate, factor, correction1, correction2);
  }
}

__global__ void split_kernel(const float* weights, std::int64_t count, SplitWeights split) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < count) split.write<1>(i, load<float, 1>(weights + i));
}

}  // namespace

std::int64_t squared_norm_scratch(std::int64_t count) { return norm_blocks(count); }

void squared_norm(const Target& target, const float* data, std::int64_t count, double* sum, double* scratch) {
  if (count == 0) return;
  const std::int64_t blocks = norm_blocks(count);
  squares_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, target.stream>>>(data, count, aligned({data}), scratch);
  check_launch("squared_norm");
  sum_kernel<<<1, kThreads, 0, target.stream>>>(scratch, blocks, sum);
  check_launch("squared_norm");
}

void clip_scale(const Target& target, const double* sum, float factor, float clip, const ScalarPlaces& places,
                float* scalars) {
  clip_kernel<<<1, 1, 0, target.stream>>>(sum, factor, clip, places, scalars);
  check_launch("clip_scale");
}

void adamw(const Target& target, const AdamWArguments& a, const ScalarPlaces& places, const float* scalars) {
  if (a.count == 0) return;
  const auto run = [&](const auto& weights, bool wide) {
    if (wide)
      adamw_kernel<4><<<grid_of(a.count, kThreads * 4), kThreads, 0, target.stream>>>(a, weights, places, scalars);
    else
      adamw_kernel<1><<<grid_of(a.count, kThreads), kThreads, 0, target.stream>>>(a, weights, places, scalars);
  };
  const bool wide = aligned({a.exp_avg, a.exp_avg_sq, a.grad, a.parameter});
  if (a.parameter_type == DType::kFloat32)
    run(WholeWeights{static_cast<float*>(a.parameter)}, wide);
  else
    run(SplitWeights{static_cast<std::uint16_t*>(a.parameter), a.remainder}, wide && aligned({a.remainder}));
  check_launch("adamw");
}

void split_master(const Target& target, const float* weights, std::int64_t count, void* parameter,
                  std::uint16_t* remainder) {
  if (count == 0) return;
  split_kernel<<<grid_of(count, kThreads), kThreads, 0, target.stream>>>(
      weights, count, SplitWeights{static_cast<std::uint16_t*>(parameter), remainder});
  check_launch("split_master");
}

}  // namespace railyard::cuda
