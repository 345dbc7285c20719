// RMSNorm of each query and key head (Henry et al., Query-Key Normalization, 2020), in place on packed. A warp does one
// head of one token at a time and keeps it in registers.
#include <algorithm>

#include "runtime/compute/cuda/kernels/column_sum.cuh"

namespace railyard::cuda {
namespace {

constexpr int kWarps = 8;                        // of a block
constexpr int kMost = kPlainHeadLimit / kWarp;   // elements a lane holds
constexpr std::int64_t kBlocksPerProcessor = 8;  // of the backward pass, which leaves a row of sums for each warp

struct Place {
  std::int64_t row, token;
  int head;
};
__device__ __forceinline__ Place place_of(const Heads& heads, std::int64_t row) {
  const std::int64_t count = heads.q_heads + heads.kv_heads, token = row / count;
  return {row, token, static_cast<int>(row - token * count)};
}
__device__ __forceinline__ std::int64_t packed_columns(const Heads& heads) {
  return (heads.q_heads + heads.kv_heads) * heads.d_qk + heads.kv_heads * heads.d_v;
}

template <class T>
__global__ void __launch_bounds__(kWarps* kWarp)
    forward_kernel(Heads heads, std::int64_t rows, T* packed, const T* q_weight, const T* k_weight, float epsilon,
                   T* raw, float* rstd) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarp;
  if (row >= rows) return;
  const int lane = static_cast<int>(threadIdx.x) % kWarp, d = static_cast<int>(heads.d_qk);
  const Place at = place_of(heads, row);
  T* head = packed + at.token * packed_columns(heads) + static_cast<std::int64_t>(at.head) * d;
  const T* weight = at.head < heads.q_heads ? q_weight : k_weight;
  float values[kMost], squares = 0.0F;
#pragma unroll
  for (int i = 0; i < kMost; ++i) {
    const int column = i * kWarp + lane;
    values[i] = column < d ? to_float(head[column]) : 0.0F;
    squares += values[i] * values[i];
  }
  const float inverse = 1.0F / sqrtf(warp_sum(squares) / static_cast<float>(d) + epsilon);
  if (lane == 0) rstd[row] = inverse;
#pragma unroll
  for (int i = 0; i < kMost; ++i) {
    const int column = i * kWarp + lane;
    if (column < d) {
      raw[row * d + column] = from_float<T>(values[i]);
      head[column] = from_float<T>(values[i] * inverse * to_float(weight[column]));
    }
  }
}

// Warp w of the grid takes every `warps`-th head and leaves its sums in row w of q_parts and k_parts [warps, d_qk].
template <class T>
__global__ void __launch_bounds__(kWarps* kWarp)
    backward_kernel(Heads heads, std::int64_t rows, T* grad_packed, const T* raw, const T* q_weight, const T* k_weight,
                    const float* rstd, float* q_parts, float* k_parts) {
  const std::int64_t warps = static_cast<std::int64_t>(gridDim.x) * kWarps;
  const std::int64_t warp = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp, d = static_cast<int>(heads.d_qk);
  float q_sums[kMost] = {}, k_sums[kMost] = {};
  for (std::int64_t row = warp; row < rows; row += warps) {
    const Place at = place_of(heads, row);
    const bool query = at.head < heads.q_heads;
    T* grad = grad_packed + at.token * packed_columns(heads) + static_cast<std::int64_t>(at.head) * d;
    const T* weight = query ? q_weight : k_weight;
    const float inverse = rstd[row];
    float grads[kMost], normed[kMost], products = 0.0F;
#pragma unroll
    for (int i = 0; i < kMost; ++i) {
      const int column = i * kWarp + lane;
      grads[i] = column < d ? to_float(grad[column]) : 0.0F;
      normed[i] = column < d ? to_float(raw[row * d + column]) * inverse : 0.0F;
      if (query) {
        q_sums[i] += grads[i] * normed[i];
      } else {
        k_sums[i] += grads[i] * normed[i];
      }
      if (column < d) grads[i] *= to_float(weight[column]);
      products += grads[i] * normed[i];
    }
    const float mean = warp_sum(products) / static_cast<float>(d);
#pragma unroll
    for (int i = 0; i < kMost; ++i) {
      const int column = i * kWarp + lane;
      if (column < d) grad[column] = from_float<T>((grads[i] - normed[i] * mean) * inverse);
    }
  }
#pragma unroll
  for (int i = 0; i < kMost; ++i) {
    const int column = i * kWarp + lane;
    if (column < d) {
      q_parts[warp * d + column] = q_sums[i];
      k_parts[warp * d + column] = k_sums[i];
    }
  }
}

std::int64_t rows_of(const Heads& heads) { return heads.batch * heads.length * (heads.q_heads + heads.kv_heads); }

std::int64_t backward_blocks(const Target& target, const Heads& heads) {
  return std::min<std::int64_t>(divide_up<std::int64_t>(rows_of(heads), kWarps),
                                target.processors * kBlocksPerProcessor);
}

}  // namespace

void head_norm_forward(const Target& target, DType type, const Heads& heads, void* packed, const void* q_weight,
                       const void* k_weight, float epsilon, void* raw, float* rstd) {
  const std::int64_t rows = rows_of(heads);
  if (rows == 0) return;
  with_compute_type(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    forward_kernel<<<grid_of(rows, kWarps), kWarps * kWarp, 0, target.stream>>>(
        heads, rows, static_cast<T*>(packed), static_cast<const T*>(q_weight), static_cast<const T*>(k_weight), epsilon,
        static_cast<T*>(raw), rstd);
  });
  check_launch("head_norm_forward");
}

std::int64_t head_norm_backward_scratch(const Target& target, const Heads& heads) {
  return backward_blocks(target, heads) * kWarps * 2 * heads.d_qk;
}

void head_norm_backward(const Target& target, DType type, const Heads& heads, void* grad_packed, const void* raw,
                        const void* q_weight, const void* k_weight, const float* rstd, float* grad_q_weight,
                        float* grad_k_weight, float* scratch) {
  const std::int64_t rows = rows_of(heads);
  if (rows == 0) return;
  const std::int64_t blocks = backward_blocks(target, heads), parts = blocks * kWarps;
  float* k_parts = scratch + parts * heads.d_qk;
  with_compute_type(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    backward_kernel<<<static_cast<unsigned>(blocks), kWarps * kWarp, 0, target.stream>>>(
        heads, rows, static_cast<T*>(grad_packed), static_cast<const T*>(raw), static_cast<const T*>(q_weight),
        static_cast<const T*>(k_weight), rstd, scratch, k_parts);
  });
  check_launch("head_norm_backward");
  sum_parts(target, scratch, parts, heads.d_qk, grad_q_weight);
  sum_parts(target, k_parts, parts, heads.d_qk, grad_k_weight);
}

}  // namespace railyard::cuda
