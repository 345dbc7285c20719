// NumPy's legacy shuffle: RandomState(seed).shuffle(x), bit for bit, on the Mersenne Twister of the standard library.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <utility>

namespace railyard::data {

// numpy.random.RandomState(seed) for a seed below 2^32: std::mt19937 with the same seed gives the same stream.
class NumpyRandomState {
 public:
  explicit NumpyRandomState(std::uint32_t seed) : generator_(seed) {}

  // Fisher-Yates from the back; each index by masked rejection on 32-bit draws (64-bit ones above 2^32 elements).
  template <class T>
  void shuffle(std::span<T> values) {
    if (values.empty()) return;
    std::uint64_t mask = ~std::uint64_t{0};  // smallest 2^k - 1 >= i, found in the loop
    for (std::uint64_t i = values.size() - 1; i > 0; --i) {
      while ((mask >> 1) >= i) mask >>= 1;
      std::uint64_t draw = 0;
      do {
        draw = (i <= 0xffffffffULL ? next32() : next64()) & mask;
      } while (draw > i);
      std::swap(values[i], values[draw]);
    }
  }

 private:
  std::uint64_t next32() { return generator_(); }
  std::uint64_t next64() {
    const std::uint64_t high = next32();
    return (high << 32) | next32();
  }
  std::mt19937 generator_;
};

}  // namespace railyard::data
