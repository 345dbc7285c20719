// Rearranging lanes: sums and maxima over them, transposed squares, and four vectors interleaved.
#pragma once

#include "runtime/compute/cpu/kernels/simd.hpp"

namespace railyard::cpu::RAILYARD_ISA {

RAILYARD_INLINE float sum_lanes(Floats value) {
#if defined(__AVX512F__)
  return _mm512_reduce_add_ps((__m512)value);
#elif defined(__AVX2__)
  __m128 half = _mm_add_ps(_mm256_castps256_ps128((__m256)value), _mm256_extractf128_ps((__m256)value, 1));
  half = _mm_add_ps(half, _mm_movehl_ps(half, half));
  return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
#else
  float sum = 0.0F;
  for (int lane = 0; lane < kLanes; ++lane) sum += value[lane];
  return sum;
#endif
}

RAILYARD_INLINE float max_lanes(Floats value) {
#if defined(__AVX512F__)
  return _mm512_reduce_max_ps((__m512)value);
#elif defined(__AVX2__)
  __m128 half = _mm_max_ps(_mm256_castps256_ps128((__m256)value), _mm256_extractf128_ps((__m256)value, 1));
  half = _mm_max_ps(half, _mm_movehl_ps(half, half));
  return _mm_cvtss_f32(_mm_max_ss(half, _mm_movehdup_ps(half)));
#else
  float maximum = value[0];
  for (int lane = 1; lane < kLanes; ++lane) maximum = value[lane] > maximum ? value[lane] : maximum;
  return maximum;
#endif
}

// Lane c of rows[r] changes place with lane r of rows[c].
RAILYARD_INLINE void transpose(Floats rows[kLanes]) {
#if defined(__AVX2__)
  Floats pairs[kLanes], quads[kLanes];
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; i += 2) {
#if defined(__AVX512F__)
    pairs[i] = (Floats)_mm512_unpacklo_ps((__m512)rows[i], (__m512)rows[i + 1]);
    pairs[i + 1] = (Floats)_mm512_unpackhi_ps((__m512)rows[i], (__m512)rows[i + 1]);
#else
    pairs[i] = (Floats)_mm256_unpacklo_ps((__m256)rows[i], (__m256)rows[i + 1]);
    pairs[i + 1] = (Floats)_mm256_unpackhi_ps((__m256)rows[i], (__m256)rows[i + 1]);
#endif
  }
  // quads[4 k + j]: in each 128 bits L, column 4 L + j of rows 4 k to 4 k + 3.
#pragma GCC unroll 4
  for (int i = 0; i < kLanes; i += 4) {
#if defined(__AVX512F__)
    quads[i] = (Floats)_mm512_unpacklo_pd((__m512d)pairs[i], (__m512d)pairs[i + 2]);
    quads[i + 1] = (Floats)_mm512_unpackhi_pd((__m512d)pairs[i], (__m512d)pairs[i + 2]);
    quads[i + 2] = (Floats)_mm512_unpacklo_pd((__m512d)pairs[i + 1], (__m512d)pairs[i + 3]);
    quads[i + 3] = (Floats)_mm512_unpackhi_pd((__m512d)pairs[i + 1], (__m512d)pairs[i + 3]);
#else
    quads[i] = (Floats)_mm256_unpacklo_pd((__m256d)pairs[i], (__m256d)pairs[i + 2]);
    quads[i + 1] = (Floats)_mm256_unpackhi_pd((__m256d)pairs[i], (__m256d)pairs[i + 2]);
    quads[i + 2] = (Floats)_mm256_unpacklo_pd((__m256d)pairs[i + 1], (__m256d)pairs[i + 3]);
    quads[i + 3] = (Floats)_mm256_unpackhi_pd((__m256d)pairs[i + 1], (__m256d)pairs[i + 3]);
#endif
  }
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
#if defined(__AVX512F__)
    const __m512 even_a = _mm512_shuffle_f32x4((__m512)quads[j], (__m512)quads[4 + j], 0x88);
    const __m512 odd_a = _mm512_shuffle_f32x4((__m512)quads[j], (__m512)quads[4 + j], 0xdd);
    const __m512 even_b = _mm512_shuffle_f32x4((__m512)quads[8 + j], (__m512)quads[12 + j], 0x88);
    const __m512 odd_b = _mm512_shuffle_f32x4((__m512)quads[8 + j], (__m512)quads[12 + j], 0xdd);
    rows[j] = (Floats)_mm512_shuffle_f32x4(even_a, even_b, 0x88);
    rows[4 + j] = (Floats)_mm512_shuffle_f32x4(odd_a, odd_b, 0x88);
    rows[8 + j] = (Floats)_mm512_shuffle_f32x4(even_a, even_b, 0xdd);
    rows[12 + j] = (Floats)_mm512_shuffle_f32x4(odd_a, odd_b, 0xdd);
#else
    rows[j] = (Floats)_mm256_permute2f128_ps((__m256)quads[j], (__m256)quads[4 + j], 0x20);
    rows[4 + j] = (Floats)_mm256_permute2f128_ps((__m256)quads[j], (__m256)quads[4 + j], 0x31);
#endif
  }
#else
  for (int r = 0; r < kLanes; ++r)
    for (int c = r + 1; c < kLanes; ++c) {
      const float other = rows[r][c];
      rows[r][c] = rows[c][r];
      rows[c][r] = other;
    }
#endif
}

// to[4 lane + word] = words[word][lane].
RAILYARD_INLINE void store_interleaved(const Floats words[4], float* to) {
#if defined(__AVX512F__)
  const __m512 low_a = _mm512_unpacklo_ps((__m512)words[0], (__m512)words[1]);
  const __m512 low_b = _mm512_unpacklo_ps((__m512)words[2], (__m512)words[3]);
  const __m512 high_a = _mm512_unpackhi_ps((__m512)words[0], (__m512)words[1]);
  const __m512 high_b = _mm512_unpackhi_ps((__m512)words[2], (__m512)words[3]);
  const __m512 q0 = (__m512)_mm512_unpacklo_pd((__m512d)low_a, (__m512d)low_b);
  const __m512 q1 = (__m512)_mm512_unpackhi_pd((__m512d)low_a, (__m512d)low_b);
  const __m512 q2 = (__m512)_mm512_unpacklo_pd((__m512d)high_a, (__m512d)high_b);
  const __m512 q3 = (__m512)_mm512_unpackhi_pd((__m512d)high_a, (__m512d)high_b);
  const __m512 even_a = _mm512_shuffle_f32x4(q0, q1, 0x88), odd_a = _mm512_shuffle_f32x4(q0, q1, 0xdd);
  const __m512 even_b = _mm512_shuffle_f32x4(q2, q3, 0x88), odd_b = _mm512_shuffle_f32x4(q2, q3, 0xdd);
  _mm512_storeu_ps(to, _mm512_shuffle_f32x4(even_a, even_b, 0x88));
  _mm512_storeu_ps(to + 16, _mm512_shuffle_f32x4(odd_a, odd_b, 0x88));
  _mm512_storeu_ps(to + 32, _mm512_shuffle_f32x4(even_a, even_b, 0xdd));
  _mm512_storeu_ps(to + 48, _mm512_shuffle_f32x4(odd_a, odd_b, 0xdd));
#else
  for (int lane = 0; lane < kLanes; ++lane)
    for (int word = 0; word < 4; ++word) to[4 * lane + word] = words[word][lane];
#endif
}

}  // namespace railyard::cpu::RAILYARD_ISA
