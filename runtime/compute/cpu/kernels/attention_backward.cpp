// Causal grouped-query attention by blocks (Dao et al., FlashAttention, 2022), backward: scores are computed again from
// the saved log-sum-exp, never stored.
#include "runtime/compute/cpu/kernels/attention.hpp"
#include "runtime/compute/cpu/kernels/math.hpp"
#include "runtime/compute/cpu/kernels/tile.hpp"

namespace railyard::cpu::RAILYARD_ISA {

std::size_t attention_forward_floats(const Heads& heads, int threads);

namespace {

// One thread's memory, in floats.
struct Scratch {
  float *keys_turned, *values_turned, *keys, *grad_keys, *grad_values;  // of the whole head
  float *queries, *grad_out, *grad_queries, *weights, *grad_scores;     // of one block
  Scratch(const Heads& h, float* base) {
    const std::int64_t qk = padded(h.d_qk), v = padded(h.d_v), blocks = block_count(h.length);
    keys_turned = base;
    values_turned = keys_turned + blocks * h.d_qk * kBlock;
    keys = values_turned + blocks * h.d_v * kBlock;
    grad_keys = keys + h.length * qk;
    grad_values = grad_keys + h.length * qk;
    queries = grad_values + h.length * v;
    grad_out = queries + kBlock * qk;
    grad_queries = grad_out + kBlock * v;
    weights = grad_queries + kBlock * qk;
    grad_scores = weights + kBlock * kBlock;
  }
  static std::int64_t size(const Heads& h) {
    const std::int64_t qk = padded(h.d_qk), v = padded(h.d_v), blocks = block_count(h.length);
    const std::int64_t floats =
        blocks * (h.d_qk + h.d_v) * kBlock + h.length * (2 * qk + v) + kBlock * (2 * qk + v) + 2 * kBlock * kBlock;
    return (floats + 63) / 64 * 64;
  }
};

template <class T>
RAILYARD_INLINE void write_rows(const float* from, std::int64_t from_stride, std::int64_t rows, std::int64_t columns,
                                float factor, T* to, std::int64_t to_stride) {
  for (std::int64_t row = 0; row < rows; ++row)
    for_vectors(columns, [&](std::int64_t i, auto part) {
      store(to + row * to_stride + i, load(from + row * from_stride + i, part) * factor, part);
    });
}

// Score rows become weights P, and P's gradient rows become that of the scores: dS = P (dP - sum(dO O)).
RAILYARD_INLINE void score_gradient_row(float* weights, float* grads, std::int64_t width, std::int64_t first,
                                        std::int64_t last, float log_sum_exp, float delta, const float* factors) {
  Ints lane;
  for (int i = 0; i < kLanes; ++i) lane[i] = i;
  const bool whole = first <= 0 && last >= width - 1;
  for (std::int64_t i = 0; i < width; i += kLanes) {
    Floats weight = exponential(load(weights + i) - log_sum_exp);
    if (!whole) {
      const Ints key = lane + static_cast<std::int32_t>(i);
      weight = key >= static_cast<std::int32_t>(first) && key <= static_cast<std::int32_t>(last) ? weight : Floats{};
    }
    Floats grad = load(grads + i);
    if (factors != nullptr) {
      const Floats factor = load(factors + i);
      grad *= factor;
      store(weights + i, weight * factor);
    } else {
      store(weights + i, weight);
    }
    store(grads + i, weight * (grad - delta));
  }
}

// Writes grad_q of the head, and leaves the gradients of its keys and values in `scratch`.
template <class T>
void differentiate_head(const Attention& a, std::int64_t sample, std::int64_t head, const Scratch& scratch) {
  const Heads& h = a.heads;
  const HeadColumns columns = head_columns(h, head);
  const std::int64_t stride = h.packed_columns, qk = padded(h.d_qk), v = padded(h.d_v);
  const T* rows = static_cast<const T*>(a.packed) + sample * h.length * stride;
  T* grad_rows = static_cast<T*>(a.grad_packed) + sample * h.length * stride;
  const std::int64_t out_offset = sample * h.length * h.output_columns + head * h.d_v;
  const T* out = static_cast<const T*>(a.out) + out_offset;
  const T* grad_out = static_cast<const T*>(a.grad_out) + out_offset;
  const float* log_sum_exp = a.log_sum_exp + (sample * h.q_heads + head) * h.length;
  copy_transposed(rows + columns.k, stride, h.length, h.d_qk, scratch.keys_turned);
  copy_transposed(rows + columns.v, stride, h.length, h.d_v, scratch.values_turned);
  copy_rows(rows + columns.k, stride, h.length, h.d_qk, 1.0F, scratch.keys);
  for (std::int64_t i = 0; i < h.length * qk; ++i) scratch.grad_keys[i] = 0.0F;
  for (std::int64_t i = 0; i < h.length * v; ++i) scratch.grad_values[i] = 0.0F;
  const bool masked = a.mask.probability > 0.0F;
  const std::uint64_t key = head_key(a.mask, head);

  for (std::int64_t query = 0; query < h.length; query += kBlock) {
    const std::int64_t count = h.length - query < kBlock ? h.length - query : kBlock;
    copy_rows(rows + query * stride + columns.q, stride, count, h.d_qk, h.scale, scratch.queries);
    copy_rows(grad_out + query * h.output_columns, h.output_columns, count, h.d_v, 1.0F, scratch.grad_out);
    float delta[kBlock];
    for (std::int64_t i = 0; i < count; ++i) {
      Floats sum{};
      for_vectors(h.d_v, [&](std::int64_t c, auto part) {
        sum += load(out + (query + i) * h.output_columns + c, part) * load(scratch.grad_out + i * v + c);
      });
      delta[i] = sum_lanes(sum);
    }
    for (std::int64_t i = 0; i < count * qk; ++i) scratch.grad_queries[i] = 0.0F;

    for (std::int64_t block = first_key(a, sample, query) / kBlock * kBlock; block < query + count; block += kBlock) {
      const std::int64_t left = h.length - block < kBlock ? h.length - block : kBlock;
      const std::int64_t rows_at_once = block == query ? kStrip : kBlock;
      for (std::int64_t strip = 0; strip < count; strip += rows_at_once) {
        const std::int64_t end = strip + rows_at_once < count ? strip + rows_at_once : count, length = end - strip;
        const std::int64_t width = block == query ? strip + kStrip : kBlock, keys = width < left ? width : left;
        float* weights = scratch.weights + strip * kBlock;
        float* grads = scratch.grad_scores + strip * kBlock;
        const float* queries = scratch.queries + strip * qk;
        const float* outs = scratch.grad_out + strip * v;
        tile_product<false>(length, width, h.d_qk, {queries, qk, 1}, scratch.keys_turned + block * h.d_qk, kBlock,
                            weights, kBlock);
        tile_product<false>(length, width, h.d_v, {outs, v, 1}, scratch.values_turned + block * h.d_v, kBlock, grads,
                            kBlock);
        for (std::int64_t i = strip; i < end; ++i) {
          float factors[kBlock];
          if (masked) {
            const std::int64_t token = sample * h.length + query + i;
            key_factors(a.mask, a.mask.sample_ids[token], a.mask.positions[token], block, key, factors);
          }
          score_gradient_row(scratch.weights + i * kBlock, scratch.grad_scores + i * kBlock, width,
                             first_key(a, sample, query + i) - block, query + i - block, log_sum_exp[query + i],
                             delta[i], masked ? factors : nullptr);
        }
        tile_product<true>(keys, v, length, {weights, 1, kBlock}, outs, v, scratch.grad_values + block * v, v);
        tile_product<true>(keys, qk, length, {grads, 1, kBlock}, queries, qk, scratch.grad_keys + block * qk, qk);
        tile_product<true>(length, qk, keys, {grads, kBlock, 1}, scratch.keys + block * qk, qk,
                           scratch.grad_queries + strip * qk, qk);
      }
    }
    write_rows(scratch.grad_queries, qk, count, h.d_qk, h.scale, grad_rows + query * stride + columns.q, stride);
  }
}

// Gradients of keys and values of every query head, when several share a key head: [batch, q_heads, length, d_qk +
// d_v].
std::int64_t shared_floats(const Heads& h) {
  return h.q_heads == h.kv_heads ? 0 : h.batch * h.q_heads * h.length * (h.d_qk + h.d_v);
}

template <class T>
void run(const Attention& a) {
  const Heads& h = a.heads;
  const std::int64_t width = h.d_qk + h.d_v, group = h.q_heads / h.kv_heads;
  float* shared = a.workspace + a.threads * Scratch::size(h);
  auto* grad_packed = static_cast<T*>(a.grad_packed);
#pragma omp parallel for num_threads(a.threads) schedule(static)
  for (std::int64_t task = 0; task < h.batch * h.q_heads; ++task) {
    const std::int64_t sample = task / h.q_heads, head = task % h.q_heads;
    const Scratch scratch(h, a.workspace + omp_get_thread_num() * Scratch::size(h));
    differentiate_head<T>(a, sample, head, scratch);
    if (group == 1) {
      const HeadColumns columns = head_columns(h, head);
      T* grad_rows = grad_packed + sample * h.length * h.packed_columns;
      write_rows(scratch.grad_keys, padded(h.d_qk), h.length, h.d_qk, 1.0F, grad_rows + columns.k, h.packed_columns);
      write_rows(scratch.grad_values, padded(h.d_v), h.length, h.d_v, 1.0F, grad_rows + columns.v, h.packed_columns);
    } else {
      float* own = shared + task * h.length * width;
      write_rows(scratch.grad_keys, padded(h.d_qk), h.length, h.d_qk, 1.0F, own, width);
      write_rows(scratch.grad_values, padded(h.d_v), h.length, h.d_v, 1.0F, own + h.d_qk, width);
    }
  }
  if (group == 1) return;
  const std::int64_t key_start = h.q_heads * h.d_qk, value_start = key_start + h.kv_heads * h.d_qk;
  parallel_ranges(a.threads, h.batch * h.length, h.q_heads * width, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token)
      for (std::int64_t kv = 0; kv < h.kv_heads; ++kv) {
        const std::int64_t first = (token / h.length * h.q_heads + kv * group) * h.length + token % h.length;
        const float* from = shared + first * width;
        T* to = grad_packed + token * h.packed_columns;
        const auto sum = [&](std::int64_t column, auto part) {
          Floats total{};
          for (std::int64_t member = 0; member < group; ++member)
            total += load(from + member * h.length * width + column, part);
          return total;
        };
        for_vectors(h.d_qk,
                    [&](std::int64_t i, auto part) { store(to + key_start + kv * h.d_qk + i, sum(i, part), part); });
        for_vectors(h.d_v, [&](std::int64_t i, auto part) {
          store(to + value_start + kv * h.d_v + i, sum(h.d_qk + i, part), part);
        });
      }
  });
}

}  // namespace

std::size_t attention_workspace(const Heads& heads, int threads, bool backward) {
  if (!backward) return attention_forward_floats(heads, threads) * sizeof(float);
  return static_cast<std::size_t>(Scratch::size(heads) * threads + shared_floats(heads)) * sizeof(float);
}

void attention_backward(const Attention& arguments) {
  visit(arguments.type, [&](auto element) { run<decltype(element)>(arguments); });
}

}  // namespace railyard::cpu::RAILYARD_ISA
