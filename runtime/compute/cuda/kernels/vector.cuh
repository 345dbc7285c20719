// What all kernels share: 16-byte loads, conversions through fp32, sums over a block in a fixed order.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <initializer_list>

#include "runtime/base/dtype.hpp"

namespace railyard::cuda {

template <class T, int W>
struct alignas(sizeof(T) * W < 16 ? sizeof(T) * W : 16) Pack {
  T x[W];
};

template <class T, int W>
__device__ __forceinline__ Pack<T, W> load(const T* from) {
  return *reinterpret_cast<const Pack<T, W>*>(from);
}
template <class T, int W>
__device__ __forceinline__ void store(T* to, const Pack<T, W>& pack) {
  *reinterpret_cast<Pack<T, W>*>(to) = pack;
}

__device__ __forceinline__ float to_float(float value) { return value; }
__device__ __forceinline__ float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }
template <class T>
__device__ __forceinline__ T from_float(float value);
template <>
__device__ __forceinline__ float from_float<float>(float value) {
  return value;
}
template <>
__device__ __forceinline__ __nv_bfloat16 from_float<__nv_bfloat16>(float value) {
  return __float2bfloat16_rn(value);
}

// Elements of a 16-byte access.
template <class T>
inline constexpr int kPackOf = 16 / static_cast<int>(sizeof(T));

inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xffffffffU;

template <class V>
__device__ __forceinline__ V warp_sum(V value) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) value += __shfl_xor_sync(kAllLanes, value, offset);
  return value;
}

// Sums of N values over the block, in every thread. `shared` has N * 32 elements, reusable after the next barrier.
template <int N, class V>
__device__ __forceinline__ void block_sum(V (&values)[N], V* shared) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const int warps = (static_cast<int>(blockDim.x) + kWarp - 1) / kWarp;
#pragma unroll
  for (int i = 0; i < N; ++i) values[i] = warp_sum(values[i]);
  if (warps == 1) return;
  if (lane == 0) {
#pragma unroll
    for (int i = 0; i < N; ++i) shared[i * kWarp + warp] = values[i];
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < N; ++i) values[i] = warp_sum(lane < warps ? shared[i * kWarp + lane] : V(0));
}

inline bool aligned(std::initializer_list<const void*> pointers) {
  std::uintptr_t bits = 0;
  for (const void* pointer : pointers) bits |= reinterpret_cast<std::uintptr_t>(pointer);
  return bits % 16 == 0;
}

template <class T>
struct Type {
  using type = T;
};

// Calls f(Type<float>) or f(Type<__nv_bfloat16>); the caller has checked that `type` is one of the two.
template <class F>
void with_compute_type(DType type, F&& f) {
  if (type == DType::kFloat32)
    f(Type<float>{});
  else
    f(Type<__nv_bfloat16>{});
}

template <class Integer>
__host__ __device__ constexpr Integer divide_up(Integer a, Integer b) {
  return (a + b - 1) / b;
}

}  // namespace railyard::cuda
