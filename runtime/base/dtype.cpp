// Element types: the table of sizes and names, and conversions that round to nearest even.
#include "runtime/base/dtype.hpp"

#include <array>
#include <cmath>
#include <cstring>

#include "runtime/base/error.hpp"

namespace railyard {
namespace {

struct Entry {
  DType type;
  std::size_t size;
  std::string_view name;
  std::string_view safetensors;
  bool floating;
};

constexpr std::array<Entry, kDTypeCount> kEntries = {{
    {DType::kFloat32, 4, "fp32", "F32", true},
    {DType::kBFloat16, 2, "bf16", "BF16", true},
    {DType::kFloat16, 2, "fp16", "F16", true},
    {DType::kFloat8E4M3, 1, "fp8_e4m3", "F8_E4M3", true},
    {DType::kFloat8E5M2, 1, "fp8_e5m2", "F8_E5M2", true},
    {DType::kFloat64, 8, "fp64", "F64", true},
    {DType::kInt8, 1, "int8", "I8", false},
    {DType::kInt16, 2, "int16", "I16", false},
    {DType::kInt32, 4, "int32", "I32", false},
    {DType::kInt64, 8, "int64", "I64", false},
    {DType::kUInt8, 1, "uint8", "U8", false},
    {DType::kUInt16, 2, "uint16", "U16", false},
    {DType::kUInt32, 4, "uint32", "U32", false},
    {DType::kUInt64, 8, "uint64", "U64", false},
    {DType::kBool, 1, "bool", "BOOL", false},
}};

const Entry& entry(DType type) {
  const auto index = static_cast<std::size_t>(type);
  RAILYARD_CHECK(index < kEntries.size(), "element type {}", index);
  return kEntries[index];
}

// A binary floating-point format of at most 16 bits: `exponent` and `mantissa` field widths, IEEE bias.
// `finite_only` is e4m3: the top exponent holds numbers too, only all ones is NaN, and there is no infinity.
struct SmallFormat {
  int exponent;
  int mantissa;
  bool finite_only;
  bool saturate;
  [[nodiscard]] constexpr int bias() const { return (1 << (exponent - 1)) - 1; }
  [[nodiscard]] constexpr std::uint32_t infinity() const { return ((1U << exponent) - 1U) << mantissa; }
  [[nodiscard]] constexpr std::uint32_t nan() const {
    return finite_only ? (1U << (exponent + mantissa)) - 1U : infinity() | (1U << (mantissa - 1));
  }
  [[nodiscard]] constexpr std::uint32_t largest() const { return finite_only ? nan() - 1U : infinity() - 1U; }
};

constexpr SmallFormat kHalf{5, 10, false, false};
constexpr SmallFormat kE4M3{4, 3, true, true};
constexpr SmallFormat kE5M2{5, 2, false, true};

float decode(std::uint32_t bits, const SmallFormat& format) {
  const std::uint32_t sign = (bits >> (format.exponent + format.mantissa)) & 1U;
  const std::uint32_t magnitude = bits & ((1U << (format.exponent + format.mantissa)) - 1U);
  float value;
  const std::uint32_t field = magnitude >> format.mantissa;
  const std::uint32_t fraction = magnitude & ((1U << format.mantissa) - 1U);
  if (format.finite_only ? magnitude == format.nan() : magnitude > format.infinity()) {
    value = std::bit_cast<float>(0x7fc00000U | (fraction << (23 - format.mantissa)));
  } else if (!format.finite_only && magnitude == format.infinity()) {
    value = std::bit_cast<float>(0x7f800000U);
  } else if (field == 0) {
    value = std::ldexp(static_cast<float>(fraction), 1 - format.bias() - format.mantissa);
  } else {
    const std::uint32_t exponent = field + static_cast<std::uint32_t>(127 - format.bias());
    value = std::bit_cast<float>((exponent << 23) | (fraction << (23 - format.mantissa)));
  }
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | (sign << 31));
}

std::uint32_t encode(float value, const SmallFormat& format) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 31) << (format.exponent + format.mantissa);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) {
    const std::uint32_t payload = (magnitude & 0x007fffffU) >> (23 - format.mantissa);
    return sign | (format.finite_only ? format.nan() : format.nan() | payload);
  }
  const std::uint32_t overflow = format.saturate ? format.largest() : format.infinity();
  if (magnitude == 0x7f800000U) return sign | overflow;
  const int exponent = static_cast<int>(magnitude >> 23) - 127 + format.bias();
  std::uint32_t result;
  if (exponent >= 1) {
    // Rounding may carry into the exponent, which is the right answer there too.
    const int drop = 23 - format.mantissa;
    const std::uint32_t rebased = magnitude - (static_cast<std::uint32_t>(127 - format.bias()) << 23);
    result = (rebased + ((1U << (drop - 1)) - 1U) + ((rebased >> drop) & 1U)) >> drop;
  } else {
    // Subnormal: the significand with its hidden bit, shifted right by the missing exponents too.
    const int drop = 23 - format.mantissa + 1 - exponent;
    if (drop > 24 || magnitude < 0x00800000U) return sign;
    const std::uint32_t significand = (magnitude & 0x007fffffU) | 0x00800000U;
    result = (significand + ((1U << (drop - 1)) - 1U) + ((significand >> drop) & 1U)) >> drop;
  }
  return sign | (result > format.largest() ? overflow : result);
}

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

double read_double(const std::byte* at, DType type) {
  switch (type) {
    case DType::kFloat64:
      return load<double>(at);
    case DType::kFloat32:
      return static_cast<double>(load<float>(at));
    case DType::kBFloat16:
      return static_cast<double>(bf16_to_float(load<std::uint16_t>(at)));
    case DType::kFloat16:
      return static_cast<double>(fp16_to_float(load<std::uint16_t>(at)));
    case DType::kFloat8E4M3:
      return static_cast<double>(fp8_e4m3_to_float(load<std::uint8_t>(at)));
    case DType::kFloat8E5M2:
      return static_cast<double>(fp8_e5m2_to_float(load<std::uint8_t>(at)));
    default:
      break;
  }
  RAILYARD_CHECK(false, "{} is no floating-point type", dtype_name(type));
}

void write_float(std::byte* at, DType type, float value) {
  const auto store = [&](auto bits) { std::memcpy(at, &bits, sizeof bits); };
  switch (type) {
    case DType::kFloat32:
      return store(value);
    case DType::kBFloat16:
      return store(float_to_bf16(value));
    case DType::kFloat16:
      return store(float_to_fp16(value));
    case DType::kFloat8E4M3:
      return store(float_to_fp8_e4m3(value));
    case DType::kFloat8E5M2:
      return store(float_to_fp8_e5m2(value));
    default:
      break;
  }
  RAILYARD_CHECK(false, "{} is no floating-point type of at most 32 bits", dtype_name(type));
}

}  // namespace

std::size_t dtype_size(DType type) { return entry(type).size; }
std::string_view dtype_name(DType type) { return entry(type).name; }
std::string_view dtype_safetensors_name(DType type) { return entry(type).safetensors; }
bool dtype_is_float(DType type) { return entry(type).floating; }

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const Entry& candidate : kEntries)
    if (candidate.name == name) return candidate.type;
  return std::nullopt;
}

std::optional<DType> dtype_from_safetensors_name(std::string_view name) {
  for (const Entry& candidate : kEntries)
    if (candidate.safetensors == name) return candidate.type;
  return std::nullopt;
}

float fp16_to_float(std::uint16_t bits) { return decode(bits, kHalf); }
std::uint16_t float_to_fp16(float value) { return static_cast<std::uint16_t>(encode(value, kHalf)); }
float fp8_e4m3_to_float(std::uint8_t bits) { return decode(bits, kE4M3); }
std::uint8_t float_to_fp8_e4m3(float value) { return static_cast<std::uint8_t>(encode(value, kE4M3)); }
float fp8_e5m2_to_float(std::uint8_t bits) { return decode(bits, kE5M2); }
std::uint8_t float_to_fp8_e5m2(float value) { return static_cast<std::uint8_t>(encode(value, kE5M2)); }

void convert_elements(const void* source, DType from, void* destination, DType to, std::size_t count) {
  if (from == to) {
    if (count > 0 && source != destination) std::memcpy(destination, source, count * dtype_size(from));
    return;
  }
  if (!dtype_is_float(from) || !dtype_is_float(to))
    throw UsageError("cannot convert elements of type {} to {}", dtype_name(from), dtype_name(to));
  const auto* in = static_cast<const std::byte*>(source);
  auto* out = static_cast<std::byte*>(destination);
  const std::size_t in_size = dtype_size(from), out_size = dtype_size(to);
  if (from == DType::kBFloat16 && to == DType::kFloat32) {
    for (std::size_t i = 0; i < count; ++i) {
      const float value = bf16_to_float(load<std::uint16_t>(in + i * 2));
      std::memcpy(out + i * 4, &value, 4);
    }
    return;
  }
  if (from == DType::kFloat32 && to == DType::kBFloat16) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint16_t value = float_to_bf16(load<float>(in + i * 4));
      std::memcpy(out + i * 2, &value, 2);
    }
    return;
  }
  for (std::size_t i = 0; i < count; ++i) {
    const double value = read_double(in + i * in_size, from);
    if (to == DType::kFloat64) {
      std::memcpy(out + i * out_size, &value, 8);
    } else {
      write_float(out + i * out_size, to, static_cast<float>(value));
    }
  }
}

}  // namespace railyard
