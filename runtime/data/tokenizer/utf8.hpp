// UTF-8, one code point at a time, total on any bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace railyard::data {

struct CodePoint {
  std::uint32_t value = 0;  // of an invalid byte: kInvalid + byte, the "surrogateescape" of Python
  std::uint32_t bytes = 1;
  [[nodiscard]] bool valid() const { return value < 0xD800 || value > 0xDFFF; }
};

inline constexpr std::uint32_t kInvalid = 0xDC00;

// The code point at text[at]. Over-long forms, surrogates and values above U+10FFFF are invalid, byte by byte.
[[nodiscard]] inline CodePoint code_point_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(text[at + i])); };
  const std::uint32_t lead = byte(0);
  const CodePoint invalid{kInvalid + lead, 1};
  if (lead < 0x80) return {lead, 1};
  const std::uint32_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || at + length > text.size()) return invalid;
  std::uint32_t value = lead & (0x7FU >> length);
  for (std::uint32_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return invalid;
    value = (value << 6) | (byte(i) & 0x3FU);
  }
  if ((length == 3 && value < 0x800) || (length == 4 && (value < 0x10000 || value > 0x10FFFF))) return invalid;
  if (value >= 0xD800 && value <= 0xDFFF) return invalid;
  return {value, length};
}

// Appends a code point, or the byte that an invalid one stands for.
inline void append_code_point(std::uint32_t value, std::string& out) {
  if (value >= kInvalid && value <= kInvalid + 0xFF) {
    out += static_cast<char>(value - kInvalid);
  } else if (value < 0x80) {
    out += static_cast<char>(value);
  } else if (value < 0x800) {
    out += static_cast<char>(0xC0 | (value >> 6));
    out += static_cast<char>(0x80 | (value & 0x3F));
  } else if (value < 0x10000) {
    out += static_cast<char>(0xE0 | (value >> 12));
    out += static_cast<char>(0x80 | ((value >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (value & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | (value >> 18));
    out += static_cast<char>(0x80 | ((value >> 12) & 0x3F));
    out += static_cast<char>(0x80 | ((value >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (value & 0x3F));
  }
}

}  // namespace railyard::data
