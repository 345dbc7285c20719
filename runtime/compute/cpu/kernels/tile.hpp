// Small matrix products inside the caches: C [m, n] (+)= A [m, k] * B [k, n], accumulators in registers.
//
// A is read one number at a time, so any strides do (a transposed A costs nothing); B and C are row-major with rows
// that are whole vectors. Products of attention blocks come down to this once keys and values are laid out for it.
#pragma once

#include "runtime/compute/cpu/kernels/simd.hpp"

namespace railyard::cpu::RAILYARD_ISA {

struct TileOperand {
  const float* data;
  std::int64_t row, column;  // strides
};

#if defined(__AVX512F__)
inline constexpr int kTileRows = 6, kTileVectors = 4;  // 24 of 32 registers accumulate
#else
inline constexpr int kTileRows = 6, kTileVectors = 2;  // 12 of 16
#endif

template <int kRows, int kVectors, bool kAccumulate>
RAILYARD_INLINE void register_tile(std::int64_t k, TileOperand a, const float* b, std::int64_t b_row, float* c,
                                   std::int64_t c_row) {
  Floats sums[kRows][kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sums[i][v] = kAccumulate ? load(c + i * c_row + v * kLanes) : Floats{};
  for (std::int64_t p = 0; p < k; ++p) {
    Floats row[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) row[v] = load(b + p * b_row + v * kLanes);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      const Floats factor = broadcast(a.data[i * a.row + p * a.column]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sums[i][v] += factor * row[v];
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) store(c + i * c_row + v * kLanes, sums[i][v]);
}

template <int kVectors, bool kAccumulate>
void tile_columns(std::int64_t m, std::int64_t k, TileOperand a, const float* b, std::int64_t b_row, float* c,
                  std::int64_t c_row) {
  std::int64_t i = 0;
  for (; i + kTileRows <= m; i += kTileRows)
    register_tile<kTileRows, kVectors, kAccumulate>(k, {a.data + i * a.row, a.row, a.column}, b, b_row, c + i * c_row,
                                                    c_row);
  for (; i + 2 <= m; i += 2)
    register_tile<2, kVectors, kAccumulate>(k, {a.data + i * a.row, a.row, a.column}, b, b_row, c + i * c_row, c_row);
  if (i < m)
    register_tile<1, kVectors, kAccumulate>(k, {a.data + i * a.row, a.row, a.column}, b, b_row, c + i * c_row, c_row);
}

// n is a multiple of kLanes.
template <bool kAccumulate>
RAILYARD_INLINE void tile_product(std::int64_t m, std::int64_t n, std::int64_t k, TileOperand a, const float* b,
                                  std::int64_t b_row, float* c, std::int64_t c_row) {
  std::int64_t column = 0;
  for (; column + kTileVectors * kLanes <= n; column += kTileVectors * kLanes)
    tile_columns<kTileVectors, kAccumulate>(m, k, a, b + column, b_row, c + column, c_row);
  const int left = static_cast<int>((n - column) / kLanes);
  if constexpr (kTileVectors > 2)
    if (left == 3) tile_columns<3, kAccumulate>(m, k, a, b + column, b_row, c + column, c_row);
  if constexpr (kTileVectors > 2)
    if (left == 2) tile_columns<2, kAccumulate>(m, k, a, b + column, b_row, c + column, c_row);
  if (left == 1) tile_columns<1, kAccumulate>(m, k, a, b + column, b_row, c + column, c_row);
}

}  // namespace railyard::cpu::RAILYARD_ISA
