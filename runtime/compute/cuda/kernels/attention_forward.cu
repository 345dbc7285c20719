// Plain causal attention forward, with windows and dropout: running softmax over tiles of keys (Milakov & Gimelshein,
// 2018; Dao et al., 2022), in fp32.
#include "runtime/compute/cuda/kernels/attention.cuh"

namespace railyard::cuda {
namespace {

template <class T, int kColumns>
__global__ void __launch_bounds__(kTileThreads)
    forward_kernel(Heads heads, const T* packed, Mask mask, T* out, float* log_sum_exp) {
  extern __shared__ float shared[];
  const int d_qk = static_cast<int>(heads.d_qk), d_v = static_cast<int>(heads.d_v);
  float* queries = shared;
  float* keys = queries + kTile * (d_qk + 1);
  float* values = keys + kTile * (d_qk + 1);
  float* scores = values + kTile * (d_v + 1);
  const int r = static_cast<int>(threadIdx.x) / kGroup, g = static_cast<int>(threadIdx.x) % kGroup;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kTile, query = first + r;
  const std::int64_t head = blockIdx.y, sample = blockIdx.z, kv_head = head / (heads.q_heads / heads.kv_heads);
  const std::int64_t stride = (heads.q_heads + heads.kv_heads) * heads.d_qk + heads.kv_heads * heads.d_v;
  const HeadRows<const T> rows = head_rows(heads, packed, sample, head, kv_head);
  load_tile(rows.q, stride, first, heads.length, d_qk, queries);

  const float nothing = __int_as_float(static_cast<int>(0xff800000U));
  float maximum = nothing, sum = 0.0F, columns[kColumns] = {};
  for (std::int64_t tile = first_key_tile(heads, sample, first); tile < min(heads.length, first + kTile);
       tile += kTile) {
    __syncthreads();
    load_tile(rows.k, stride, tile, heads.length, d_qk, keys);
    load_tile(rows.v, stride, tile, heads.length, d_v, values);
    __syncthreads();
    float score[4], tile_maximum = nothing;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int key = 4 * g + j;
      score[j] = visible(heads, sample, query, tile + key)
                     ? heads.scale * dot(queries + r * (d_qk + 1), keys + key * (d_qk + 1), d_qk)
                     : nothing;
      tile_maximum = fmaxf(tile_maximum, score[j]);
    }
#pragma unroll
    for (int offset = 1; offset < kGroup; offset *= 2)
      tile_maximum = fmaxf(tile_maximum, __shfl_xor_sync(kAllLanes, tile_maximum, offset));
    const float now = fmaxf(maximum, tile_maximum);
    const float fade = maximum == nothing ? 0.0F : expf(maximum - now);
    maximum = now;
    float factors[4], tile_sum = 0.0F;
    score_factors(heads, mask, sample, head, query, tile + 4 * g, factors);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float p = score[j] == nothing ? 0.0F : expf(score[j] - maximum);
      tile_sum += p;
      scores[r * (kTile + 1) + 4 * g + j] = p * factors[j];
    }
#pragma unroll
    for (int offset = 1; offset < kGroup; offset *= 2) tile_sum += __shfl_xor_sync(kAllLanes, tile_sum, offset);
    sum = sum * fade + tile_sum;
    __syncwarp();
#pragma unroll
    for (int c = 0; c < kColumns; ++c) columns[c] *= fade;
    for (int key = 0; key < kTile; ++key) {
      const float p = scores[r * (kTile + 1) + key];
#pragma unroll
      for (int c = 0; c < kColumns; ++c)
        if (c * kGroup + g < d_v) columns[c] += p * values[key * (d_v + 1) + c * kGroup + g];
    }
  }
  if (query >= heads.length) return;
  T* to = out + ((sample * heads.length + query) * heads.q_heads + head) * heads.d_v;
  const float inverse = 1.0F / sum;
#pragma unroll
  for (int c = 0; c < kColumns; ++c)
    if (c * kGroup + g < d_v) to[c * kGroup + g] = from_float<T>(columns[c] * inverse);
  if (g == 0) log_sum_exp[(sample * heads.q_heads + head) * heads.length + query] = maximum + logf(sum);
}

}  // namespace

void plain_attention_forward(const Target& target, DType type, const Heads& heads, const void* packed, const Mask& mask,
                             void* out, float* log_sum_exp) {
  if (heads.batch * heads.length * heads.q_heads == 0) return;
  const auto floats = static_cast<std::size_t>(kTile * (2 * (heads.d_qk + 1) + heads.d_v + 1 + kTile + 1));
  const dim3 grid(grid_of(heads.length, kTile), static_cast<unsigned>(heads.q_heads),
                  static_cast<unsigned>(heads.batch));
  with_attention_kernel(type, heads, [&](auto tag, auto columns) {
    using T = typename decltype(tag)::type;
    const auto kernel = forward_kernel<T, decltype(columns)::value>;
    allow_shared_memory(kernel, floats * sizeof(float));
    kernel<<<grid, kTileThreads, floats * sizeof(float), target.stream>>>(heads, static_cast<const T*>(packed), mask,
                                                                          static_cast<T*>(out), log_sum_exp);
  });
  check_launch("attention_forward");
}

}  // namespace railyard::cuda
