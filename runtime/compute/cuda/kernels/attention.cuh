// What the plain attention kernels share: tiles of 32 rows in fp32, who computes what, and which keys a query sees.
// A block has 256 threads: thread (r, g) = (thread / 8, thread % 8) computes four scores of row r and every eighth
// output column from g.
#pragma once

#include "runtime/compute/cuda/kernels/launch.cuh"

namespace railyard::cuda {

inline constexpr int kTile = 32;
inline constexpr int kTileThreads = 256;
inline constexpr int kGroup = 8;  // threads of a row

// Tiles in shared memory have one padding column, against bank conflicts.
template <class T>
__device__ __forceinline__ void load_tile(const T* from, std::int64_t stride, std::int64_t first, std::int64_t length,
                                          int columns, float* tile) {
  for (int i = static_cast<int>(threadIdx.x); i < kTile * columns; i += kTileThreads) {
    const int row = i / columns, column = i - row * columns;
    const bool inside = first + row < length;
    tile[row * (columns + 1) + column] = inside ? to_float(from[(first + row) * stride + column]) : 0.0F;
  }
}

__device__ __forceinline__ float dot(const float* a, const float* b, int count) {
  float sum = 0.0F;
#pragma unroll 8
  for (int i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

// The first key that a query within the sample sees; never falling as queries rise.
__device__ __forceinline__ std::int64_t first_key(const Heads& heads, std::int64_t sample, std::int64_t query) {
  const std::int64_t of_window = heads.window == 0 ? 0 : max(std::int64_t{0}, query - heads.window + 1);
  return heads.first_keys == nullptr ? of_window
                                     : max(of_window, std::int64_t{heads.first_keys[sample * heads.length + query]});
}

__device__ __forceinline__ bool visible(const Heads& heads, std::int64_t sample, std::int64_t query, std::int64_t key) {
  return query < heads.length && key <= query && key >= first_key(heads, sample, query);
}

// The first tile of keys that a tile of queries sees.
__device__ __forceinline__ std::int64_t first_key_tile(const Heads& heads, std::int64_t sample,
                                                       std::int64_t first_query) {
  return first_key(heads, sample, first_query) / kTile * kTile;
}

// One past the last query that sees a key of the tile.
__device__ __forceinline__ std::int64_t query_end(const Heads& heads, std::int64_t first_key) {
  if (heads.window == 0) return heads.length;
  return min(heads.length, first_key + kTile - 1 + heads.window);
}

// Where the heads of a sample lie in packed.
template <class T>
struct HeadRows {
  T *q, *k, *v;
};
template <class T>
__device__ __forceinline__ HeadRows<T> head_rows(const Heads& heads, T* packed, std::int64_t sample,
                                                 std::int64_t q_head, std::int64_t kv_head) {
  const std::int64_t columns = (heads.q_heads + heads.kv_heads) * heads.d_qk + heads.kv_heads * heads.d_v;
  T* base = packed + sample * heads.length * columns;
  return {base + q_head * heads.d_qk, base + (heads.q_heads + kv_head) * heads.d_qk,
          base + (heads.q_heads + heads.kv_heads) * heads.d_qk + kv_head * heads.d_v};
}

// Factors of four consecutive keys of a query.
__device__ __forceinline__ void score_factors(const Heads& heads, const Mask& mask, std::int64_t sample,
                                              std::int64_t q_head, std::int64_t query, std::int64_t key,
                                              float (&factors)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) factors[i] = 1.0F;
  if (mask.probability <= 0.0F || query >= heads.length) return;
  const std::int64_t token = sample * heads.length + query;
  dropout_factors(mask.sample_ids[token], mask.positions[token], key / 4,
                  mix64(mask.key + static_cast<std::uint64_t>(mask.first_head + q_head)), mask.probability,
                  1.0F / (1.0F - mask.probability), factors);
}

// f(Type<T>, number of output columns a thread holds).
template <class F>
void with_attention_kernel(DType type, const Heads& heads, F&& f) {
  with_compute_type(type, [&](auto tag) {
    if (heads.d_qk <= 128 && heads.d_v <= 128)
      f(tag, std::integral_constant<int, 128 / kGroup>{});
    else
      f(tag, std::integral_constant<int, kPlainHeadLimit / kGroup>{});
  });
}

}  // namespace railyard::cuda
