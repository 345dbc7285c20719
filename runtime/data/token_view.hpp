// Tokens of any of the integer types of a data file, read as 32-bit ids.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>

namespace railyard::data {

// Codes as they stand in a Megatron .idx header.
enum class TokenType : std::uint8_t { kUInt8 = 1, kInt8, kInt16, kInt32, kInt64, kFloat64, kFloat32, kUInt16 };

[[nodiscard]] constexpr std::size_t token_size(TokenType type) {
  switch (type) {
    case TokenType::kUInt8:
    case TokenType::kInt8:
      return 1;
    case TokenType::kInt16:
    case TokenType::kUInt16:
      return 2;
    case TokenType::kInt32:
    case TokenType::kFloat32:
      return 4;
    default:
      return 8;
  }
}
[[nodiscard]] constexpr bool token_is_float(TokenType type) {
  return type == TokenType::kFloat64 || type == TokenType::kFloat32;
}
[[nodiscard]] constexpr const char* token_type_name(TokenType type) {
  constexpr const char* names[] = {"", "uint8", "int8", "int16", "int32", "int64", "float64", "float32", "uint16"};
  return names[static_cast<std::size_t>(type)];
}

// The type that Megatron's preprocessing writes for a vocabulary.
[[nodiscard]] constexpr TokenType token_type_for(std::int64_t vocab_size) {
  return vocab_size < 65500 ? TokenType::kUInt16 : TokenType::kInt32;
}

// Copies out.size() tokens that start at `source` (any alignment). An int64 id that does not fit becomes -1, which no
// vocabulary has. Floating-point files hold no ids: the caller refuses them before.
inline void load_tokens(TokenType type, const std::byte* source, std::span<std::int32_t> out) {
  const auto each = [&]<class T>(T) {
    for (std::size_t i = 0; i < out.size(); ++i) {
      T value;
      std::memcpy(&value, source + i * sizeof(T), sizeof(T));
      if constexpr (sizeof(T) == 8)
        out[i] = value >= 0 && value <= INT32_MAX ? static_cast<std::int32_t>(value) : -1;
      else
        out[i] = static_cast<std::int32_t>(value);
    }
  };
  switch (type) {
    case TokenType::kUInt8:
      return each(std::uint8_t{});
    case TokenType::kInt8:
      return each(std::int8_t{});
    case TokenType::kInt16:
      return each(std::int16_t{});
    case TokenType::kUInt16:
      return each(std::uint16_t{});
    case TokenType::kInt32:
      if (!out.empty()) std::memcpy(out.data(), source, out.size() * sizeof(std::int32_t));
      return;
    default:
      return each(std::int64_t{});
  }
}

}  // namespace railyard::data
