// CRC-32C: three interleaved streams of the SSE4.2 instruction, or eight tables (slicing-by-8).
#include "runtime/base/crc32c.hpp"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace railyard {
namespace {

constexpr std::uint32_t kPolynomial = 0x82f63b78U;

using Tables = std::array<std::array<std::uint32_t, 256>, 8>;

constexpr Tables make_tables() {
  Tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1U) != 0 ? kPolynomial : 0U);
    tables[0][byte] = crc;
  }
  for (std::size_t byte = 0; byte < 256; ++byte)
    for (std::size_t k = 1; k < 8; ++k)
      tables[k][byte] = (tables[k - 1][byte] >> 8) ^ tables[0][tables[k - 1][byte] & 0xffU];
  return tables;
}

constexpr Tables kTables = make_tables();

// Multiplies `crc` by x^(8 * kStride) modulo the polynomial: appends kStride zero bytes, one table per byte of the crc.
constexpr std::size_t kStride = 1024;

constexpr std::array<std::array<std::uint32_t, 256>, 4> make_shift_tables() {
  std::array<std::uint32_t, 32> of_bit{};
  for (std::size_t bit = 0; bit < 32; ++bit) {
    std::uint32_t crc = 1U << bit;
    for (std::size_t i = 0; i < kStride; ++i) crc = (crc >> 8) ^ kTables[0][crc & 0xffU];
    of_bit[bit] = crc;
  }
  std::array<std::array<std::uint32_t, 256>, 4> tables{};
  for (std::size_t k = 0; k < 4; ++k)
    for (std::size_t byte = 0; byte < 256; ++byte)
      for (std::size_t bit = 0; bit < 8; ++bit)
        if (((byte >> bit) & 1U) != 0) tables[k][byte] ^= of_bit[8 * k + bit];
  return tables;
}

constexpr auto kShift = make_shift_tables();

std::uint32_t shift(std::uint32_t crc) {
  return kShift[0][crc & 0xffU] ^ kShift[1][(crc >> 8) & 0xffU] ^ kShift[2][(crc >> 16) & 0xffU] ^ kShift[3][crc >> 24];
}

std::uint64_t load64(const std::byte* at) {
  std::uint64_t value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) std::uint32_t crc32c_sse42(const std::byte* at, std::size_t size, std::uint32_t crc) {
  std::uint64_t a = ~crc;
  // The instruction takes three cycles but one can start each cycle: keep three streams in flight, then join them.
  while (size >= 3 * kStride) {
    std::uint64_t b = 0, c = 0;
    for (std::size_t i = 0; i < kStride; i += 8) {
      a = _mm_crc32_u64(a, load64(at + i));
      b = _mm_crc32_u64(b, load64(at + kStride + i));
      c = _mm_crc32_u64(c, load64(at + 2 * kStride + i));
    }
    a = shift(static_cast<std::uint32_t>(a)) ^ static_cast<std::uint32_t>(b);
    a = shift(static_cast<std::uint32_t>(a)) ^ static_cast<std::uint32_t>(c);
    at += 3 * kStride;
    size -= 3 * kStride;
  }
  for (; size >= 8; at += 8, size -= 8) a = _mm_crc32_u64(a, load64(at));
  auto tail = static_cast<std::uint32_t>(a);
  for (; size > 0; ++at, --size) tail = _mm_crc32_u8(tail, std::to_integer<unsigned char>(*at));
  return ~tail;
}
#endif

}  // namespace

std::uint32_t crc32c_portable(std::span<const std::byte> data, std::uint32_t crc) {
  const std::byte* at = data.data();
  std::size_t size = data.size();
  crc = ~crc;
  for (; size >= 8; at += 8, size -= 8) {
    const std::uint64_t word = load64(at) ^ crc;
    std::uint32_t next = 0;
    for (std::size_t k = 0; k < 8; ++k) next ^= kTables[7 - k][(word >> (8 * k)) & 0xffU];
    crc = next;
  }
  for (; size > 0; ++at, --size) crc = (crc >> 8) ^ kTables[0][(crc ^ std::to_integer<std::uint32_t>(*at)) & 0xffU];
  return ~crc;
}

std::uint32_t crc32c(std::span<const std::byte> data, std::uint32_t crc) {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (has_instruction) return crc32c_sse42(data.data(), data.size(), crc);
#endif
  return crc32c_portable(data, crc);
}

}  // namespace railyard
