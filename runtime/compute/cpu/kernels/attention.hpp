// What forward and backward attention share: block sizes, and one head's rows copied to padded fp32 blocks.
#pragma once

#include "runtime/compute/cpu/kernels/operations.hpp"
#include "runtime/compute/cpu/kernels/random.hpp"

namespace railyard::cpu::RAILYARD_ISA {

inline constexpr std::int64_t kBlock = 64;  // queries and keys of a score block: 16 KiB, well inside the first cache

constexpr std::int64_t padded(std::int64_t columns) { return (columns + kLanes - 1) / kLanes * kLanes; }
constexpr std::int64_t block_count(std::int64_t length) { return (length + kBlock - 1) / kBlock; }

// Where one head's queries, keys and values lie in packed.
struct HeadColumns {
  std::int64_t q, k, v;
};
RAILYARD_INLINE HeadColumns head_columns(const Heads& h, std::int64_t head) {
  const std::int64_t kv = head / (h.q_heads / h.kv_heads);
  return {head * h.d_qk, (h.q_heads + kv) * h.d_qk, (h.q_heads + h.kv_heads) * h.d_qk + kv * h.d_v};
}

// to [rows, padded(columns)] = factor * from [rows, columns], zero beyond.
template <class T>
RAILYARD_INLINE void copy_rows(const T* from, std::int64_t stride, std::int64_t rows, std::int64_t columns,
                               float factor, float* to) {
  for (std::int64_t row = 0; row < rows; ++row)
    for_vectors(columns, [&](std::int64_t i, auto part) {
      store(to + row * padded(columns) + i, load(from + row * stride + i, part) * factor);
    });
}

// Blocks of kBlock rows turned over: to [blocks, columns, kBlock], zero beyond the last row.
template <class T>
RAILYARD_INLINE void copy_transposed(const T* from, std::int64_t stride, std::int64_t rows, std::int64_t columns,
                                     float* to) {
  for (std::int64_t first = 0; first < block_count(rows) * kBlock; first += kLanes) {
    float* out = to + first / kBlock * columns * kBlock + first % kBlock;
    for_vectors(columns, [&](std::int64_t column, auto part) {
      Floats square[kLanes];
      for (int row = 0; row < kLanes; ++row)
        square[row] = first + row < rows ? load(from + (first + row) * stride + column, part) : Floats{};
      transpose(square);
      for (int i = 0; i < part.count; ++i) store(out + (column + i) * kBlock, square[i]);
    });
  }
}

// Scores above the diagonal are not computed but for the rest of strips of this many queries.
inline constexpr std::int64_t kStrip = 32;

// Keys that query `position` of a sample may see: [first, position]. It never falls as positions rise.
RAILYARD_INLINE std::int64_t first_key(const Attention& a, std::int64_t sample, std::int64_t position) {
  const Heads& h = a.heads;
  const std::int64_t of_window = h.window > 0 && position - h.window + 1 > 0 ? position - h.window + 1 : 0;
  const std::int64_t of_document = a.first_keys != nullptr ? a.first_keys[sample * h.length + position] : 0;
  return of_document > of_window ? of_document : of_window;
}

// factors [kBlock] of dropout for keys [key_block, + kBlock) of one query.
RAILYARD_INLINE void key_factors(const Mask& mask, std::int64_t sample, std::int32_t position, std::int64_t key_block,
                                 std::uint64_t head_key, float* factors) {
  static_assert(kBlock % kMaskColumns == 0);
  for (std::int64_t first = 0; first < kBlock; first += kMaskColumns)
    dropout_factors(sample, position, key_block + first, head_key, mask.probability, factors + first);
}

// SplitMix64's finaliser, as in runtime/base/philox.hpp.
RAILYARD_INLINE std::uint64_t head_key(const Mask& mask, std::int64_t head) {
  std::uint64_t z = mask.key + static_cast<std::uint64_t>(mask.first_head + head) + 0x9E3779B97F4A7C15ULL;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

}  // namespace railyard::cpu::RAILYARD_ISA
