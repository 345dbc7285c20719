// exp, tanh, the normal distribution function and square roots on vectors, in fp32.
#pragma once

#include "runtime/compute/cpu/kernels/simd.hpp"

namespace railyard::cpu::RAILYARD_ISA {

RAILYARD_INLINE Floats square_root(Floats x) {
#if defined(__AVX512F__)
  return (Floats)_mm512_sqrt_ps((__m512)x);
#elif defined(__AVX2__)
  return (Floats)_mm256_sqrt_ps((__m256)x);
#else
  Floats root;
  for (int lane = 0; lane < kLanes; ++lane) root[lane] = __builtin_sqrtf(x[lane]);
  return root;
#endif
}

// Relative error below 2 units in the last place; 0 below -87.3, infinity above 88.7, NaN stays.
// x = n ln 2 + r with |r| <= ln 2 / 2; exp(r) by its Taylor polynomial of degree 7; times 2^n.
RAILYARD_INLINE Floats exponential(Floats x) {
  constexpr float kLog2E = 1.44269504088896341F, kLn2High = 0.693359375F, kLn2Low = -2.12194440e-4F;
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer
#if defined(__AVX512F__)
  // These two return their second operand when either is NaN.
  const __m512 low = _mm512_max_ps(_mm512_set1_ps(-104.0F), (__m512)x);
  const Floats bounded = (Floats)_mm512_min_ps(_mm512_set1_ps(89.0F), low);
#else
  const Floats bounded = x > 89.0F ? broadcast(89.0F) : x < -89.0F ? broadcast(-89.0F) : x;
#endif
  const Floats shifted = bounded * kLog2E + kRound;
  const Floats n = shifted - kRound;
  const Floats r = (bounded - n * kLn2High) - n * kLn2Low;
  Floats p = broadcast(1.0F / 5040.0F);
  p = p * r + (1.0F / 720.0F);
  p = p * r + (1.0F / 120.0F);
  p = p * r + (1.0F / 24.0F);
  p = p * r + (1.0F / 6.0F);
  p = p * r + 0.5F;
  p = p * r + 1.0F;
  p = p * r + 1.0F;
#if defined(__AVX512F__)
  // Subnormal results would cost a trap into microcode each.
  const __mmask16 normal = _mm512_cmp_ps_mask((__m512)x, _mm512_set1_ps(-87.33F), _CMP_NLT_UQ);
  return (Floats)_mm512_maskz_scalef_ps(normal, (__m512)p, (__m512)n);
#else
  const Ints exponent = (Ints)shifted - (Ints)broadcast(kRound);
  const Ints half = exponent >> 1;
  const Floats scale_a = (Floats)((half + 127) << 23);
  const Floats scale_b = (Floats)((exponent - half + 127) << 23);
  const Floats result = p * scale_a * scale_b;
  return x < -87.33F ? Floats{} : result;
#endif
}

RAILYARD_INLINE Floats sigmoid(Floats x) { return 1.0F / (1.0F + exponential(-x)); }

// Absolute error below 1.2e-7.
RAILYARD_INLINE Floats hyperbolic_tangent(Floats x) { return 1.0F - 2.0F / (exponential(x + x) + 1.0F); }

// Phi(x) = (1 + erf(x / sqrt 2)) / 2. Absolute error below 1.2e-7. erfc(z) = t exp(-z^2 + P(t)) with t = 1 / (1 + z /
// 2) and P a Chebyshev fit (Press et al., Numerical Recipes, section 6.2).
RAILYARD_INLINE Floats normal_distribution(Floats x) {
  const Floats z = (x < 0.0F ? -x : x) * 0.70710678118654752F;
  const Floats t = 1.0F / (1.0F + 0.5F * z);
  Floats p = broadcast(0.17087277F);
  p = p * t - 0.82215223F;
  p = p * t + 1.48851587F;
  p = p * t - 1.13520398F;
  p = p * t + 0.27886807F;
  p = p * t - 0.18628806F;
  p = p * t + 0.09678418F;
  p = p * t + 0.37409196F;
  p = p * t + 1.00002368F;
  p = p * t - 1.26551223F;
  const Floats tail = 0.5F * t * exponential(p - z * z);
  return x < 0.0F ? tail : 1.0F - tail;
}

// The density of the normal distribution.
RAILYARD_INLINE Floats normal_density(Floats x) { return 0.39894228040143268F * exponential(-0.5F * x * x); }

}  // namespace railyard::cpu::RAILYARD_ISA
