// Vectors of the widest kind that this translation unit may use, on the compilers' vector extensions.
//
// Every file of kernels/ is compiled once per instruction set (RAILYARD_ISA names it). So that the linker can never
// pick a wide copy of a shared inline function for a narrow machine, these files use no inline function or template
// from outside their own namespace: plain pointers and loops only.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define RAILYARD_INLINE static inline __attribute__((always_inline))

namespace railyard::cpu::RAILYARD_ISA {

#if defined(__AVX512F__)
inline constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
inline constexpr int kVectorBytes = 32;
#else
inline constexpr int kVectorBytes = 16;
#endif
inline constexpr int kLanes = kVectorBytes / 4;

typedef float Floats __attribute__((vector_size(kVectorBytes)));
typedef std::int32_t Ints __attribute__((vector_size(kVectorBytes)));
typedef std::uint32_t Uints __attribute__((vector_size(kVectorBytes)));
typedef std::uint16_t Shorts __attribute__((vector_size(kVectorBytes / 2)));

// The upper half of an fp32.
struct BFloat16 {
  std::uint16_t bits;
};

// How many lanes of a vector hold elements: all (known when compiling), or the first `count`.
struct Full {
  static constexpr int count = kLanes;
};
struct Part {
  int count;
};

RAILYARD_INLINE Floats broadcast(float value) { return value - Floats{}; }
RAILYARD_INLINE Uints broadcast_bits(std::uint32_t value) { return value - Uints{}; }

RAILYARD_INLINE Floats widen(Shorts halves) { return (Floats)(__builtin_convertvector(halves, Uints) << 16); }
// Round to nearest even; NaN stays NaN.
RAILYARD_INLINE Shorts narrow(Floats value) {
  const Uints bits = (Uints)value;
  const Uints rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  const Uints quiet = (bits >> 16) | 0x40U;
  return __builtin_convertvector(value == value ? rounded : quiet, Shorts);
}

RAILYARD_INLINE Floats load(const float* from, Full = {}) {
  Floats value;
  __builtin_memcpy(&value, from, sizeof value);
  return value;
}
RAILYARD_INLINE Floats load(const BFloat16* from, Full = {}) {
  Shorts halves;
  __builtin_memcpy(&halves, from, sizeof halves);
  return widen(halves);
}
RAILYARD_INLINE void store(float* to, Floats value, Full = {}) { __builtin_memcpy(to, &value, sizeof value); }
RAILYARD_INLINE void store(BFloat16* to, Floats value, Full = {}) {
  const Shorts halves = narrow(value);
  __builtin_memcpy(to, &halves, sizeof halves);
}
// Lanes from `part.count` on are zero.
template <class T>
RAILYARD_INLINE Floats load(const T* from, Part part) {
  T elements[kLanes] = {};
  for (int lane = 0; lane < part.count; ++lane) elements[lane] = from[lane];
  return load(elements);
}
template <class T>
RAILYARD_INLINE void store(T* to, Floats value, Part part) {
  T elements[kLanes];
  store(elements, value);
  for (int lane = 0; lane < part.count; ++lane) to[lane] = elements[lane];
}
// `value` in the lanes that hold elements, `other` in the rest.
RAILYARD_INLINE Floats keep(Floats value, Floats, Full) { return value; }
RAILYARD_INLINE Floats keep(Floats value, Floats other, Part part) {
  Ints lane;
  for (int i = 0; i < kLanes; ++i) lane[i] = i;
  return lane < part.count ? value : other;
}

RAILYARD_INLINE float to_float(float value) { return value; }
RAILYARD_INLINE float to_float(BFloat16 value) {
  const std::uint32_t bits = static_cast<std::uint32_t>(value.bits) << 16;
  float result;
  __builtin_memcpy(&result, &bits, sizeof result);
  return result;
}

// Calls body(index, Full) for whole vectors of [0, count) and body(index, Part) for the rest.
template <class Body>
RAILYARD_INLINE void for_vectors(std::int64_t count, const Body& body) {
  std::int64_t index = 0;
  for (; index + kLanes <= count; index += kLanes) body(index, Full{});
  if (index < count) body(index, Part{static_cast<int>(count - index)});
}

// GCC's and Clang's `?:` on vectors: a NaN in `b` stays, one in `a` gives b.
RAILYARD_INLINE Floats larger(Floats a, Floats b) { return a > b ? a : b; }

}  // namespace railyard::cpu::RAILYARD_ISA
