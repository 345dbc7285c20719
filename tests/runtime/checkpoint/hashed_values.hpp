// The weights of the fixtures: value i of tensor NAME is a hash of both, as tests/parity/make_*.py compute it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace railyard::test {

inline std::vector<float> hashed_values(const std::string& name, std::size_t count, double centre = 0.0) {
  std::uint32_t seed = 2166136261U;
  for (const char c : name) seed = (seed ^ static_cast<unsigned char>(c)) * 16777619U;
  std::vector<float> out(count);
  for (std::size_t i = 0; i < count; ++i) {
    std::uint32_t x = static_cast<std::uint32_t>(i) * 2654435761U + seed;
    for (int round = 0; round < 2; ++round) x = (x ^ (x >> 16)) * 0x45d9f3bU;
    x ^= x >> 16;
    out[i] = static_cast<float>((static_cast<double>(x >> 8) / 16777216.0 - 0.5) * 0.4 + centre);
  }
  return out;
}

}  // namespace railyard::test
