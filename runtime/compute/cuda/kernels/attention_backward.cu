// Plain causal attention backward: probabilities computed again from the saved log-sum-exp (Dao et al., 2022). One
// kernel goes over queries for each tile of keys, one over keys for each tile of queries: no atomics, so runs agree.
#include "runtime/compute/cuda/kernels/attention.cuh"

namespace railyard::cuda {
namespace {

// product [batch, q_heads, length] = sum of out * grad_out over a head's columns; one warp each.
template <class T>
__global__ void product_kernel(Heads heads, const T* out, const T* grad_out, float* product) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * (kTileThreads / kWarp) + threadIdx.x / kWarp;
  if (i >= heads.batch * heads.length * heads.q_heads) return;
  const std::int64_t head = i % heads.q_heads, token = i / heads.q_heads;
  float sum = 0.0F;
  for (std::int64_t c = threadIdx.x % kWarp; c < heads.d_v; c += kWarp)
    sum += to_float(out[i * heads.d_v + c]) * to_float(grad_out[i * heads.d_v + c]);
  sum = warp_sum(sum);
  const std::int64_t sample = token / heads.length, query = token % heads.length;
  if (threadIdx.x % kWarp == 0) product[(sample * heads.q_heads + head) * heads.length + query] = sum;
}

struct Tiles {
  float *queries, *grad_out, *keys, *values, *probabilities, *gradients, *log_sum_exp, *product;
};

__device__ __forceinline__ Tiles tiles_in(float* shared, int d_qk, int d_v) {
  Tiles t{};
  t.queries = shared;
  t.grad_out = t.queries + kTile * (d_qk + 1);
  t.keys = t.grad_out + kTile * (d_v + 1);
  t.values = t.keys + kTile * (d_qk + 1);
  t.probabilities = t.values + kTile * (d_v + 1);
  t.gradients = t.probabilities + kTile * (kTile + 1);
  t.log_sum_exp = t.gradients + kTile * (kTile + 1);
  t.product = t.log_sum_exp + kTile;
  return t;
}

std::size_t shared_floats(const Heads& heads) {
  return static_cast<std::size_t>(kTile * (2 * (heads.d_qk + 1) + 2 * (heads.d_v + 1) + 2 * (kTile + 1) + 2));
}

template <class T>
__device__ __forceinline__ void load_queries(const Heads& heads, const Tiles& t, const T* q, std::int64_t stride,
                                             const T* grad_out, const float* log_sum_exp, const float* product,
                                             std::int64_t sample, std::int64_t head, std::int64_t first) {
  load_tile(q, stride, first, heads.length, static_cast<int>(heads.d_qk), t.queries);
  load_tile(grad_out + (sample * heads.length * heads.q_heads + head) * heads.d_v, heads.q_heads * heads.d_v, first,
            heads.length, static_cast<int>(heads.d_v), t.grad_out);
  const int i = static_cast<int>(threadIdx.x);
  if (i < kTile) {
    const std::int64_t at = (sample * heads.q_heads + head) * heads.length + first + i;
    const bool inside = first + i < heads.length;
    t.log_sum_exp[i] = inside ? log_sum_exp[at] : 0.0F;
    t.product[i] = inside ? product[at] : 0.0F;
  }
}

// Of the pair (query row, key row) of the tiles: the probability behind dropout, and the gradient of the score before
// its scale.
struct Pair {
  float probability, gradient;
};
__device__ __forceinline__ Pair pair_at(const Heads& heads, const Tiles& t, std::int64_t sample, int query, int key,
                                        std::int64_t first_query, std::int64_t first_key, float factor) {
  if (!visible(heads, sample, first_query + query, first_key + key)) return {0.0F, 0.0F};
  const int d_qk = static_cast<int>(heads.d_qk), d_v = static_cast<int>(heads.d_v);
  const float score = heads.scale * dot(t.queries + query * (d_qk + 1), t.keys + key * (d_qk + 1), d_qk);
  const float p = expf(score - t.log_sum_exp[query]);
  const float grad = dot(t.grad_out + query * (d_v + 1), t.values + key * (d_v + 1), d_v) * factor;
  return {p * factor, p * (grad - t.product[query]) * heads.scale};
}

template <class T, int kColumns>
__global__ void __launch_bounds__(kTileThreads)
    keys_kernel(Heads heads, const T* packed, const float* log_sum_exp, const T* grad_out, const float* product,
                Mask mask, T* grad_packed) {
  extern __shared__ float shared[];
  const int d_qk = static_cast<int>(heads.d_qk), d_v = static_cast<int>(heads.d_v);
  const Tiles t = tiles_in(shared, d_qk, d_v);
  const int r = static_cast<int>(threadIdx.x) / kGroup, g = static_cast<int>(threadIdx.x) % kGroup;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kTile, kv_head = blockIdx.y, sample = blockIdx.z;
  const std::int64_t stride = (heads.q_heads + heads.kv_heads) * heads.d_qk + heads.kv_heads * heads.d_v;
  const std::int64_t group = heads.q_heads / heads.kv_heads;
  const HeadRows<const T> own = head_rows(heads, packed, sample, 0, kv_head);
  load_tile(own.k, stride, first, heads.length, d_qk, t.keys);
  load_tile(own.v, stride, first, heads.length, d_v, t.values);
  float grad_key[kColumns] = {}, grad_value[kColumns] = {};
  for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    const HeadRows<const T> rows = head_rows(heads, packed, sample, head, kv_head);
    for (std::int64_t tile = first; tile < query_end(heads, first); tile += kTile) {
      __syncthreads();
      load_queries(heads, t, rows.q, stride, grad_out, log_sum_exp, product, sample, head, tile);
      __syncthreads();
      // Row r is a query here: its factors come four keys at a time.
      float factors[4];
      score_factors(heads, mask, sample, head, tile + r, first + 4 * g, factors);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const Pair pair = pair_at(heads, t, sample, r, 4 * g + j, tile, first, factors[j]);
        t.probabilities[r * (kTile + 1) + 4 * g + j] = pair.probability;
        t.gradients[r * (kTile + 1) + 4 * g + j] = pair.gradient;
      }
      __syncthreads();
      for (int query = 0; query < kTile; ++query) {
        const float p = t.probabilities[query * (kTile + 1) + r], s = t.gradients[query * (kTile + 1) + r];
#pragma unroll
        for (int c = 0; c < kColumns; ++c) {
          const int column = c * kGroup + g;
          if (column < d_qk) grad_key[c] += s * t.queries[query * (d_qk + 1) + column];
          if (column < d_v) grad_value[c] += p * t.grad_out[query * (d_v + 1) + column];
        }
      }
    }
  }
  if (first + r >= heads.length) return;
  const HeadRows<T> to = head_rows(heads, grad_packed, sample, 0, kv_head);
#pragma unroll
  for (int c = 0; c < kColumns; ++c) {
    const int column = c * kGroup + g;
    if (column < d_qk) to.k[(first + r) * stride + column] = from_float<T>(grad_key[c]);
    if (column < d_v) to.v[(first + r) * stride + column] = from_float<T>(grad_value[c]);
  }
}

template <class T, int kColumns>
__global__ void __launch_bounds__(kTileThreads)
    queries_kernel(Heads heads, const T* packed, const float* log_sum_exp, const T* grad_out, const float* product,
                   Mask mask, T* grad_packed) {
  extern __shared__ float shared[];
  const int d_qk = static_cast<int>(heads.d_qk), d_v = static_cast<int>(heads.d_v);
  const Tiles t = tiles_in(shared, d_qk, d_v);
  const int r = static_cast<int>(threadIdx.x) / kGroup, g = static_cast<int>(threadIdx.x) % kGroup;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kTile, head = blockIdx.y, sample = blockIdx.z;
  const std::int64_t stride = (heads.q_heads + heads.kv_heads) * heads.d_qk + heads.kv_heads * heads.d_v;
  const std::int64_t kv_head = head / (heads.q_heads / heads.kv_heads);
  const HeadRows<const T> rows = head_rows(heads, packed, sample, head, kv_head);
  load_queries(heads, t, rows.q, stride, grad_out, log_sum_exp, product, sample, head, first);
  float grad_query[kColumns] = {};
  for (std::int64_t tile = first_key_tile(heads, sample, first); tile < min(heads.length, first + kTile);
       tile += kTile) {
    __syncthreads();
    load_tile(rows.k, stride, tile, heads.length, d_qk, t.keys);
    load_tile(rows.v, stride, tile, heads.length, d_v, t.values);
    __syncthreads();
    float factors[4];
    score_factors(heads, mask, sample, head, first + r, tile + 4 * g, factors);
#pragma unroll
    for (int j = 0; j < 4; ++j)
      t.gradients[r * (kTile + 1) + 4 * g + j] =
          pair_at(heads, t, sample, r, 4 * g + j, first, tile, factors[j]).gradient;
    __syncwarp();
    for (int key = 0; key < kTile; ++key) {
      const float s = t.gradients[r * (kTile + 1) + key];
#pragma unroll
      for (int c = 0; c < kColumns; ++c)
        if (c * kGroup + g < d_qk) grad_query[c] += s * t.keys[key * (d_qk + 1) + c * kGroup + g];
    }
  }
  if (first + r >= heads.length) return;
  const HeadRows<T> to = head_rows(heads, grad_packed, sample, head, kv_head);
#pragma unroll
  for (int c = 0; c < kColumns; ++c)
    if (c * kGroup + g < d_qk) to.q[(first + r) * stride + c * kGroup + g] = from_float<T>(grad_query[c]);
}

}  // namespace

void plain_attention_backward(const Target& target, DType type, const Heads& heads, const void* packed, const void* out,
                              const float* log_sum_exp, const void* grad_out, const Mask& mask, void* grad_packed,
                              float* scratch) {
  const std::int64_t rows = heads.batch * heads.length * heads.q_heads;
  if (rows == 0) return;
  const std::size_t bytes = shared_floats(heads) * sizeof(float);
  const auto batch = static_cast<unsigned>(heads.batch);
  const dim3 key_grid(grid_of(heads.length, kTile), static_cast<unsigned>(heads.kv_heads), batch);
  const dim3 query_grid(grid_of(heads.length, kTile), static_cast<unsigned>(heads.q_heads), batch);
  with_attention_kernel(type, heads, [&](auto tag, auto columns) {
    using T = typename decltype(tag)::type;
    const auto* in = static_cast<const T*>(packed);
    const auto* grad = static_cast<const T*>(grad_out);
    product_kernel<<<grid_of(rows, kTileThreads / kWarp), kTileThreads, 0, target.stream>>>(
        heads, static_cast<const T*>(out), grad, scratch);
    check_launch("attention_backward");
    const auto keys = keys_kernel<T, decltype(columns)::value>;
    allow_shared_memory(keys, bytes);
    keys<<<key_grid, kTileThreads, bytes, target.stream>>>(heads, in, log_sum_exp, grad, scratch, mask,
                                                           static_cast<T*>(grad_packed));
    check_launch("attention_backward");
    const auto queries = queries_kernel<T, decltype(columns)::value>;
    allow_shared_memory(queries, bytes);
    queries<<<query_grid, kTileThreads, bytes, target.stream>>>(heads, in, log_sum_exp, grad, scratch, mask,
                                                                static_cast<T*>(grad_packed));
    check_launch("attention_backward");
  });
}

}  // namespace railyard::cuda
