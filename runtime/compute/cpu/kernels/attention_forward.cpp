// Causal grouped-query attention by blocks with a running softmax (Dao et al., FlashAttention, 2022), forward.
#include "runtime/compute/cpu/kernels/attention.hpp"
#include "runtime/compute/cpu/kernels/math.hpp"
#include "runtime/compute/cpu/kernels/tile.hpp"

namespace railyard::cpu::RAILYARD_ISA {
namespace {

constexpr float kLowest = -1e30F;  // below every score, and finite: exp(kLowest - kLowest) is 1, not NaN

// One thread's memory, in floats.
struct Scratch {
  float *keys, *values, *queries, *scores, *sums;
  Scratch(const Heads& h, float* base) {
    keys = base;
    values = keys + block_count(h.length) * h.d_qk * kBlock;
    queries = values + h.length * padded(h.d_v);
    scores = queries + kBlock * padded(h.d_qk);
    sums = scores + kBlock * kBlock;
  }
  static std::int64_t size(const Heads& h) {
    const std::int64_t floats = block_count(h.length) * h.d_qk * kBlock + h.length * padded(h.d_v) +
                                kBlock * padded(h.d_qk) + kBlock * kBlock + kBlock * padded(h.d_v);
    return (floats + 63) / 64 * 64;
  }
};

// Scores of keys outside [first, last] become very low; returns the largest.
RAILYARD_INLINE float mask_row(float* row, std::int64_t width, std::int64_t first, std::int64_t last) {
  const Floats lowest = broadcast(kLowest);
  Floats maxima = lowest;
  if (first <= 0 && last >= width - 1) {
    for (std::int64_t i = 0; i < width; i += kLanes) maxima = larger(maxima, load(row + i));
    return max_lanes(maxima);
  }
  Ints lane;
  for (int i = 0; i < kLanes; ++i) lane[i] = i;
  for (std::int64_t i = 0; i < width; i += kLanes) {
    const Ints key = lane + static_cast<std::int32_t>(i);
    const Floats score = key >= static_cast<std::int32_t>(first) && key <= static_cast<std::int32_t>(last)
                             ? load(row + i)
                             : lowest + lowest;
    store(row + i, score);
    maxima = larger(maxima, score);
  }
  return max_lanes(maxima);
}

// The running softmax of a block's queries.
struct Softmax {
  float maxima[kBlock], totals[kBlock], rescale[kBlock], next[kBlock];

  Softmax() {
    for (std::int64_t i = 0; i < kBlock; ++i) {
      maxima[i] = next[i] = kLowest;
      totals[i] = 0.0F;
    }
  }
  // Takes in next[], the largest scores of the keys at hand, for queries [first, first + kStrip).
  void raise(std::int64_t first) {
    for (std::int64_t i = first; i < first + kStrip; i += kLanes) {
      const Floats before = load(maxima + i), now = larger(load(next + i), before), factor = exponential(before - now);
      store(maxima + i, now);
      store(rescale + i, factor);
      store(totals + i, load(totals + i) * factor);
    }
  }
  void weigh(float* row, std::int64_t width, std::int64_t query) {
    Floats sum{};
    for (std::int64_t i = 0; i < width; i += kLanes) {
      const Floats weight = exponential(load(row + i) - maxima[query]);
      store(row + i, weight);
      sum += weight;
    }
    totals[query] += sum_lanes(sum);
  }
};

template <class T>
void attend_head(const Attention& a, std::int64_t sample, std::int64_t head, float* memory) {
  const Heads& h = a.heads;
  const Scratch scratch(h, memory);
  const HeadColumns columns = head_columns(h, head);
  const std::int64_t stride = h.packed_columns, value_columns = padded(h.d_v), query_columns = padded(h.d_qk);
  const T* rows = static_cast<const T*>(a.packed) + sample * h.length * stride;
  T* out = static_cast<T*>(a.output) + sample * h.length * h.output_columns + head * h.d_v;
  float* log_sum_exp = a.log_sum_exp + (sample * h.q_heads + head) * h.length;
  copy_transposed(rows + columns.k, stride, h.length, h.d_qk, scratch.keys);
  copy_rows(rows + columns.v, stride, h.length, h.d_v, 1.0F, scratch.values);
  const bool masked = a.mask.probability > 0.0F;
  const std::uint64_t key = head_key(a.mask, head);

  for (std::int64_t query = 0; query < h.length; query += kBlock) {
    const std::int64_t count = h.length - query < kBlock ? h.length - query : kBlock;
    copy_rows(rows + query * stride + columns.q, stride, count, h.d_qk, h.scale, scratch.queries);
    Softmax softmax;
    const std::int64_t first_block = first_key(a, sample, query) / kBlock * kBlock;
    for (std::int64_t block = first_block; block < query + count; block += kBlock) {
      const std::int64_t keys = h.length - block < kBlock ? h.length - block : kBlock;
      for (std::int64_t strip = 0; strip < count; strip += kStrip) {
        const std::int64_t end = strip + kStrip < count ? strip + kStrip : count;
        const std::int64_t width = block == query ? strip + kStrip : kBlock;
        float* scores = scratch.scores + strip * kBlock;
        float* sums = scratch.sums + strip * value_columns;
        tile_product<false>(end - strip, width, h.d_qk, {scratch.queries + strip * query_columns, query_columns, 1},
                            scratch.keys + block * h.d_qk, kBlock, scores, kBlock);
        for (std::int64_t i = strip; i < end; ++i)
          softmax.next[i] =
              mask_row(scratch.scores + i * kBlock, width, first_key(a, sample, query + i) - block, query + i - block);
        softmax.raise(strip);
        for (std::int64_t i = strip; i < end; ++i) {
          float* row = scratch.scores + i * kBlock;
          softmax.weigh(row, width, i);
          if (masked) {
            const std::int64_t token = sample * h.length + query + i;
            float factors[kBlock];
            key_factors(a.mask, a.mask.sample_ids[token], a.mask.positions[token], block, key, factors);
            for (std::int64_t j = 0; j < width; j += kLanes) store(row + j, load(row + j) * load(factors + j));
          }
        }
        const TileOperand weights{scores, kBlock, 1};
        const float* values = scratch.values + block * value_columns;
        const std::int64_t seen = width < keys ? width : keys;
        if (block == first_block) {
          tile_product<false>(end - strip, value_columns, seen, weights, values, value_columns, sums, value_columns);
          continue;
        }
        for (std::int64_t i = strip; i < end; ++i)
          for (std::int64_t v = 0; v < value_columns; v += kLanes) {
            float* at = scratch.sums + i * value_columns + v;
            store(at, load(at) * softmax.rescale[i]);
          }
        tile_product<true>(end - strip, value_columns, seen, weights, values, value_columns, sums, value_columns);
      }
    }
    for (std::int64_t i = 0; i < count; ++i) {
      const float inverse = 1.0F / softmax.totals[i];
      for_vectors(h.d_v, [&](std::int64_t v, auto part) {
        store(out + (query + i) * h.output_columns + v, load(scratch.sums + i * value_columns + v) * inverse, part);
      });
      log_sum_exp[query + i] = softmax.maxima[i] + __builtin_logf(softmax.totals[i]);
    }
  }
}

}  // namespace

std::size_t attention_forward_floats(const Heads& heads, int threads) {
  return static_cast<std::size_t>(Scratch::size(heads)) * static_cast<std::size_t>(threads);
}

void attention_forward(const Attention& arguments) {
  const Heads& h = arguments.heads;
#pragma omp parallel for num_threads(arguments.threads) schedule(static)
  for (std::int64_t task = 0; task < h.batch * h.q_heads; ++task) {
    float* memory = arguments.workspace + omp_get_thread_num() * Scratch::size(h);
    visit(arguments.type,
          [&](auto element) { attend_head<decltype(element)>(arguments, task / h.q_heads, task % h.q_heads, memory); });
  }
}

}  // namespace railyard::cpu::RAILYARD_ISA
