// Philox4x32-10 (Salmon et al., SC 2011) on vectors of consecutive fourth counters, bit-equal to
// runtime/base/philox.hpp, and dropout factors made of it.
#pragma once

#include "runtime/compute/cpu/kernels/kernels.hpp"
#include "runtime/compute/cpu/kernels/shuffle.hpp"

namespace railyard::cpu::RAILYARD_ISA {

// Low and high words of a * factor.
RAILYARD_INLINE void multiply_wide(Uints a, std::uint32_t factor, Uints& low, Uints& high) {
#if defined(__AVX512F__)
  const __m512i f = _mm512_set1_epi64(factor);
  const __m512i even = _mm512_mul_epu32((__m512i)a, f), odd = _mm512_mul_epu32(_mm512_srli_epi64((__m512i)a, 32), f);
  low = (Uints)_mm512_mask_blend_epi32(0xAAAA, even, _mm512_slli_epi64(odd, 32));
  high = (Uints)_mm512_mask_blend_epi32(0xAAAA, _mm512_srli_epi64(even, 32), odd);
#elif defined(__AVX2__)
  const __m256i f = _mm256_set1_epi64x(factor);
  const __m256i even = _mm256_mul_epu32((__m256i)a, f), odd = _mm256_mul_epu32(_mm256_srli_epi64((__m256i)a, 32), f);
  low = (Uints)_mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA);
  high = (Uints)_mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);
#else
  for (int lane = 0; lane < kLanes; ++lane) {
    const std::uint64_t product = std::uint64_t{a[lane]} * factor;
    low[lane] = static_cast<std::uint32_t>(product);
    high[lane] = static_cast<std::uint32_t>(product >> 32);
  }
#endif
}

// x[0..3] of the kLanes counters (c0, c1, c2, c3 + lane).
RAILYARD_INLINE void philox(std::uint32_t c0, std::uint32_t c1, std::uint32_t c2, std::uint32_t c3, std::uint64_t key,
                            Uints x[4]) {
  Uints a = broadcast_bits(c0), b = broadcast_bits(c1), c = broadcast_bits(c2), d;
  for (int lane = 0; lane < kLanes; ++lane) d[lane] = c3 + static_cast<std::uint32_t>(lane);
  std::uint32_t k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    Uints low_a, high_a, low_c, high_c;
    multiply_wide(a, 0xD2511F53U, low_a, high_a);
    multiply_wide(c, 0xCD9E8D57U, low_c, high_c);
    a = high_c ^ b ^ k0;
    c = high_a ^ d ^ k1;
    b = low_c;
    d = low_a;
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  x[0] = a;
  x[1] = b;
  x[2] = c;
  x[3] = d;
}

inline constexpr int kMaskColumns = 4 * kLanes;  // that one call of dropout_factors covers

// factors[f] for features first + f, f < kMaskColumns: 0 when dropped, else 1 / (1 - probability). `first` is a
// multiple of 4.
RAILYARD_INLINE void dropout_factors(std::int64_t sample, std::int32_t position, std::int64_t first, std::uint64_t key,
                                     float probability, float* factors) {
  Uints x[4];
  const auto bits = static_cast<std::uint64_t>(sample);
  philox(static_cast<std::uint32_t>(bits), static_cast<std::uint32_t>(bits >> 32), static_cast<std::uint32_t>(position),
         static_cast<std::uint32_t>(first / 4), key, x);
  const Floats kept = broadcast(1.0F / (1.0F - probability));
  Floats words[4];
  for (int word = 0; word < 4; ++word) {
    const Floats uniform = (__builtin_convertvector((Ints)(x[word] >> 9), Floats) + 0.5F) * (1.0F / 8388608.0F);
    words[word] = uniform >= probability ? kept : Floats{};
  }
  store_interleaved(words, factors);
}

}  // namespace railyard::cpu::RAILYARD_ISA
