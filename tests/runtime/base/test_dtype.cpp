// Conversions against the definition of each format, computed here in double from the bit fields.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "runtime/base/dtype.hpp"
#include "runtime/base/error.hpp"

namespace railyard {
namespace {

// The value of a small format by its definition.
double defined_value(unsigned bits, int exponent_bits, int mantissa_bits, bool finite_only) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const unsigned field = (bits >> mantissa_bits) & ((1U << exponent_bits) - 1U);
  const unsigned fraction = bits & ((1U << mantissa_bits) - 1U);
  const double sign = (bits >> (exponent_bits + mantissa_bits)) != 0 ? -1.0 : 1.0;
  const bool top = field == (1U << exponent_bits) - 1U;
  if (top && !finite_only)
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  if (top && fraction == (1U << mantissa_bits) - 1U) return std::numeric_limits<double>::quiet_NaN();
  const double significand = std::ldexp(fraction, -mantissa_bits) + (field == 0 ? 0.0 : 1.0);
  return sign * std::ldexp(significand, static_cast<int>(field == 0 ? 1 : field) - bias);
}

// Every bit pattern decodes to its definition and encodes back; the midpoint of neighbours goes to the even one, and a
// hair to either side of it to the nearer one.
template <class Decode, class Encode>
void check_format(int exponent_bits, int mantissa_bits, bool finite_only, Decode decode, Encode encode) {
  const unsigned half = 1U << (exponent_bits + mantissa_bits);
  for (unsigned bits = 0; bits < 2 * half; ++bits) {
    const double expected = defined_value(bits, exponent_bits, mantissa_bits, finite_only);
    const float value = decode(bits);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(value)) << bits;
      EXPECT_TRUE(std::isnan(decode(encode(value)))) << bits;
      continue;
    }
    ASSERT_EQ(static_cast<double>(value), expected) << bits;
    ASSERT_EQ(std::signbit(value), std::signbit(expected)) << bits;
    if (!std::isinf(expected)) {
      ASSERT_EQ(encode(value), bits);
    }
    const double next =
        (bits + 1) % half == 0 ? NAN : defined_value(bits + 1, exponent_bits, mantissa_bits, finite_only);
    if (!std::isfinite(next) || !std::isfinite(expected)) continue;
    const auto middle = static_cast<float>((expected + next) / 2);
    ASSERT_EQ(encode(middle), (bits & 1U) == 0 ? bits : bits + 1) << bits;
    ASSERT_EQ(encode(std::nextafter(middle, static_cast<float>(expected))), bits);
    ASSERT_EQ(encode(std::nextafter(middle, static_cast<float>(next))), bits + 1);
  }
}

TEST(DType, Fp16IsIeeeBinary16) {
  check_format(
      5, 10, false, [](unsigned b) { return fp16_to_float(static_cast<std::uint16_t>(b)); },
      [](float v) { return unsigned{float_to_fp16(v)}; });
  EXPECT_EQ(float_to_fp16(65519.0F), 0x7bff);
  EXPECT_EQ(float_to_fp16(65520.0F), 0x7c00);  // rounds past the largest finite number
  EXPECT_EQ(float_to_fp16(-std::numeric_limits<float>::infinity()), 0xfc00);
  EXPECT_EQ(float_to_fp16(std::numeric_limits<float>::denorm_min()), 0);
}

TEST(DType, BFloat16KeepsTheUpperHalf) {
  check_format(
      8, 7, false, [](unsigned b) { return bf16_to_float(static_cast<std::uint16_t>(b)); },
      [](float v) { return unsigned{float_to_bf16(v)}; });
  EXPECT_EQ(float_to_bf16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x7f800001U)), 0x7fc0);  // a NaN whose payload would be cut off
}

TEST(DType, Fp8SaturatesAtTheLargestFinite) {
  check_format(
      4, 3, true, [](unsigned b) { return fp8_e4m3_to_float(static_cast<std::uint8_t>(b)); },
      [](float v) { return unsigned{float_to_fp8_e4m3(v)}; });
  check_format(
      5, 2, false, [](unsigned b) { return fp8_e5m2_to_float(static_cast<std::uint8_t>(b)); },
      [](float v) { return unsigned{float_to_fp8_e5m2(v)}; });
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(fp8_e4m3_to_float(float_to_fp8_e4m3(1e9F)), 448.0F);
  EXPECT_EQ(fp8_e4m3_to_float(float_to_fp8_e4m3(-infinity)), -448.0F);
  EXPECT_EQ(fp8_e5m2_to_float(float_to_fp8_e5m2(infinity)), 57344.0F);
}

TEST(DType, NamesAndSizesAreConsistent) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto type = static_cast<DType>(i);
    EXPECT_EQ(dtype_from_name(dtype_name(type)), type);
    EXPECT_EQ(dtype_from_safetensors_name(dtype_safetensors_name(type)), type);
  }
  EXPECT_EQ(dtype_size(DType::kBFloat16), 2U);
  EXPECT_EQ(dtype_size(DType::kFloat64), 8U);
  EXPECT_FALSE(dtype_from_name("float32"));
}

TEST(DType, ConvertsBetweenFloatTypesAndRefusesOthers) {
  const std::vector<double> in = {1.0, -2.5, 3.1415926535897931, 70000.0};
  std::vector<float> narrow(4);
  convert_elements(in.data(), DType::kFloat64, narrow.data(), DType::kFloat32, 4);
  EXPECT_EQ(narrow[2], 3.14159274F);
  std::vector<std::uint16_t> half(4);
  convert_elements(narrow.data(), DType::kFloat32, half.data(), DType::kBFloat16, 4);
  std::vector<double> wide(4);
  convert_elements(half.data(), DType::kBFloat16, wide.data(), DType::kFloat64, 4);
  EXPECT_EQ(wide, (std::vector<double>{1.0, -2.5, 3.140625, 70144.0}));
  EXPECT_THROW(convert_elements(in.data(), DType::kInt32, half.data(), DType::kFloat32, 1), UsageError);
}

}  // namespace
}  // namespace railyard
