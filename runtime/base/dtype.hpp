// Element types of tensors and files: sizes, names, and conversions between the floating-point formats on the host.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace railyard {

// fp8 types are those of the OCP 8-bit floating point specification: e4m3 has no infinity and reaches 448, e5m2 is
// IEEE-like and reaches 57344.
enum class DType : std::uint8_t {
  kFloat32,
  kBFloat16,
  kFloat16,
  kFloat8E4M3,
  kFloat8E5M2,
  kFloat64,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUInt8,
  kUInt16,
  kUInt32,
  kUInt64,
  kBool,
};

inline constexpr int kDTypeCount = 15;

// Bytes of one element.
[[nodiscard]] std::size_t dtype_size(DType type);
// Our name, as in a job file and in messages: "fp32", "bf16", "fp16", "fp8_e4m3", "int32", ...
[[nodiscard]] std::string_view dtype_name(DType type);
// The name in a safetensors header: "F32", "BF16", "F8_E4M3", "I32", ...
[[nodiscard]] std::string_view dtype_safetensors_name(DType type);
// Inverses of the two; nothing when the name is unknown.
[[nodiscard]] std::optional<DType> dtype_from_name(std::string_view name);
[[nodiscard]] std::optional<DType> dtype_from_safetensors_name(std::string_view name);

// Whether the type is one of the floating-point formats.
[[nodiscard]] bool dtype_is_float(DType type);

// bf16 <-> fp32. Rounds to nearest even; a NaN stays a (quiet) NaN of the same sign.
[[nodiscard]] inline float bf16_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}
[[nodiscard]] inline std::uint16_t float_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<std::uint16_t>((bits >> 16) | 0x0040U);
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

// An fp32 weight as the bf16 parameter that products use and 16 bits more, without loss and without a third copy: the
// parameter is the weight rounded to nearest (halves away from zero), the remainder what its bits lack, modulo 2^16.
struct SplitMaster {
  std::uint16_t parameter = 0, remainder = 0;
};
[[nodiscard]] inline SplitMaster split_master(float weight) {
  const auto bits = std::bit_cast<std::uint32_t>(weight);
  return {static_cast<std::uint16_t>((bits + 0x8000U) >> 16), static_cast<std::uint16_t>(bits)};
}
[[nodiscard]] inline float join_master(SplitMaster split) {
  // A remainder of 0x8000 and more was rounded up.
  const std::uint32_t upper = split.parameter - (split.remainder >= 0x8000U ? 1U : 0U);
  return std::bit_cast<float>(upper << 16 | split.remainder);
}

// IEEE binary16 <-> fp32. Rounds to nearest even, overflows to infinity, keeps subnormals and NaN.
[[nodiscard]] float fp16_to_float(std::uint16_t bits);
[[nodiscard]] std::uint16_t float_to_fp16(float value);

// fp8 <-> fp32. Rounds to nearest even; values (and infinities) beyond the largest finite number saturate to it, as
// training recipes expect; NaN stays NaN.
[[nodiscard]] float fp8_e4m3_to_float(std::uint8_t bits);
[[nodiscard]] std::uint8_t float_to_fp8_e4m3(float value);
[[nodiscard]] float fp8_e5m2_to_float(std::uint8_t bits);
[[nodiscard]] std::uint8_t float_to_fp8_e5m2(float value);

// Converts `count` contiguous elements. Equal types are copied. Between floating-point types the value goes through
// fp32 (through fp64 when either side is fp64, rounding once per step). Integer types convert only to themselves:
// anything else is a UsageError. Source and destination need no alignment and must not overlap unless they are the
// same address and elements of equal size.
void convert_elements(const void* source, DType from, void* destination, DType to, std::size_t count);

}  // namespace railyard
