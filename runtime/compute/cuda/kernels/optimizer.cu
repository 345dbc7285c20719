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

template <class T, int W>
__global__ void adamw_kernel(AdamWArguments a, ScalarPlaces places, const float* scalars) {
  if (scalars[places.finite] == 0.0F) return;
  const std::int64_t i = (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) * W;
  if (i >= a.count) return;
  const float rate = scalars[places.learning_rate], factor = scalars[places.gradient_scale];
  const float correction1 = 1.0F / scalars[places.bias_correction1],
              correction2 = 1.0F / scalars[places.bias_correction2];
  const auto update = [&](float grad, float& m, float& v, float& w) {
    const float g = grad * factor;
    m = a.beta1 * m + (1.0F - a.beta1) * g;
    v = a.beta2 * v + (1.0F - a.beta2) * g * g;
    w -= rate * (m * correction1 / (sqrtf(v * correction2) + a.epsilon) + a.weight_decay * w);
  };
  T* parameter = static_cast<T*>(a.parameter);
  if (i + W <= a.count) {
    const Pack<float, W> grad = load<float, W>(a.grad + i);
    Pack<float, W> m = load<float, W>(a.exp_avg + i), v = load<float, W>(a.exp_avg_sq + i),
                   w = load<float, W>(a.master + i);
    Pack<T, W> out;
#pragma unroll
    for (int lane = 0; lane < W; ++lane) {
      update(grad.x[lane], m.x[lane], v.x[lane], w.x[lane]);
      out.x[lane] = from_float<T>(w.x[lane]);
    }
    store(a.exp_avg + i, m);
    store(a.exp_avg_sq + i, v);
    store(a.master + i, w);
    store(parameter + i, out);
  } else {
    for (std::int64_t j = i; j < a.count; ++j) {
      update(a.grad[j], a.exp_avg[j], a.exp_avg_sq[j], a.master[j]);
      parameter[j] = from_float<T>(a.master[j]);
    }
  }
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
  const bool wide = aligned({a.master, a.exp_avg, a.exp_avg_sq, a.grad, a.parameter});
  with_compute_type(a.parameter_type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (wide)
      adamw_kernel<T, 4><<<grid_of(a.count, kThreads * 4), kThreads, 0, target.stream>>>(a, places, scalars);
    else
      adamw_kernel<T, 1><<<grid_of(a.count, kThreads), kThreads, 0, target.stream>>>(a, places, scalars);
  });
  check_launch("adamw");
}

}  // namespace railyard::cuda
