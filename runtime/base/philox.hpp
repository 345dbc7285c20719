// Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2,
// 3", SC 2011). A value is a pure function of (key, counter), so any rank of any layout draws the same number for the
// same logical element. Host and CUDA device share this code.
#pragma once

#include <cstdint>
#include <string_view>

#ifdef __CUDACC__
#define RAILYARD_HOST_DEVICE __host__ __device__
#else
#define RAILYARD_HOST_DEVICE
#endif

namespace railyard {

struct PhiloxBlock {
  std::uint32_t x[4];
};

// Four 32-bit values for a 128-bit counter (c0 lowest) and a 64-bit key.
RAILYARD_HOST_DEVICE inline PhiloxBlock philox4x32(std::uint32_t c0, std::uint32_t c1, std::uint32_t c2,
                                                   std::uint32_t c3, std::uint64_t key) {
  std::uint32_t k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53U} * c0, p1 = std::uint64_t{0xCD9E8D57U} * c2;
    const std::uint32_t n0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
    const std::uint32_t n2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<std::uint32_t>(p1);
    c3 = static_cast<std::uint32_t>(p0);
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  return {{c0, c1, c2, c3}};
}

// 32 random bits to a uniform number in (0, 1), never an end point.
RAILYARD_HOST_DEVICE inline float uniform_open(std::uint32_t bits) {
  return (static_cast<float>(bits >> 9) + 0.5F) * (1.0F / 8388608.0F);
}

// Finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): mixes numbers into keys.
RAILYARD_HOST_DEVICE inline std::uint64_t mix64(std::uint64_t z) {
  z += 0x9E3779B97F4A7C15ULL;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

// The key of a named stream (FNV-1a over the name, mixed with the seed).
inline std::uint64_t stream_key(std::uint64_t seed, std::string_view name) {
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  return mix64(hash ^ mix64(seed));
}

}  // namespace railyard
