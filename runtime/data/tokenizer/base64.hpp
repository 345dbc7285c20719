// Base64 (RFC 4648) of vocabulary files.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace railyard::data {

// The bytes, or nothing when the text is not base64.
[[nodiscard]] inline std::optional<std::string> decode_base64(std::string_view text) {
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string out;
  unsigned value = 0;
  int bits = 0;
  for (const char c : text) {
    unsigned digit = 0;
    if (c >= 'A' && c <= 'Z')
      digit = static_cast<unsigned>(c - 'A');
    else if (c >= 'a' && c <= 'z')
      digit = static_cast<unsigned>(c - 'a') + 26;
    else if (c >= '0' && c <= '9')
      digit = static_cast<unsigned>(c - '0') + 52;
    else if (c == '+')
      digit = 62;
    else if (c == '/')
      digit = 63;
    else
      return std::nullopt;
    value = ((value << 6) | digit) & 0xFFFFFU;
    bits += 6;
    if (bits >= 8) {
      bits -= 8;
      out += static_cast<char>((value >> bits) & 0xFFU);
    }
  }
  return out;
}

}  // namespace railyard::data
