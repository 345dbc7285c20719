// 8-bit numbers: largest magnitudes, scales, copies in both orientations, and products of them.
#include "tests/runtime/compute/harness.hpp"

namespace railyard::test {
namespace {

constexpr DType kE4m3 = DType::kFloat8E4M3, kE5m2 = DType::kFloat8E5M2, kFp32 = DType::kFloat32;

std::uint8_t to_byte(float value, DType type) {
  return type == kE4m3 ? float_to_fp8_e4m3(value) : float_to_fp8_e5m2(value);
}
float from_byte(std::uint8_t byte, DType type) {
  return type == kE4m3 ? fp8_e4m3_to_float(byte) : fp8_e5m2_to_float(byte);
}
float magnitude(const Numbers& numbers) {
  double found = 0.0;
  for (const double number : numbers) found = std::max(found, std::abs(number));
  return static_cast<float>(found);
}

class QuantizeTest : public OperationTest {
 protected:
  Tensor eight_bit(DType dtype, const Shape& shape, Scaling scaling = Scaling::kTensor) {
    Tensor tensor = allocate(dtype, shape);
    tensor.scale = unset(kFp32, scales_shape(scaling, shape[0], shape[1])).as<float>();
    return tensor;
  }
  Numbers scales_of(const Tensor& tensor, Scaling scaling) {
    const Shape shape = scales_shape(scaling, tensor.shape[0], tensor.shape[1]);
    return download({const_cast<float*>(tensor.scale), kFp32, shape});
  }
  // A tensor quantized with the scale of its own largest magnitude.
  Tensor quantized(const Numbers& numbers, DType dtype, const Shape& shape) {
    const Tensor in = upload(numbers, type(), shape), maximum = upload({0.0}, kFp32, Shape{1});
    const Tensor out = eight_bit(dtype, shape);
    backend().amax(in, maximum);
    backend().scale_from_amax(maximum, dtype, {const_cast<float*>(out.scale), kFp32, Shape{1}});
    backend().quantize(in, out, {}, {});
    return out;
  }
  Numbers widened(const Tensor& tensor, Scaling scaling = Scaling::kTensor) {
    const Numbers scales = scales_of(tensor, scaling);
    const std::vector<std::byte> bytes = download_bytes(tensor);
    const std::int64_t columns = tensor.shape[1];
    const Shape shape = scales_shape(scaling, tensor.shape[0], columns);
    Numbers numbers;
    for (std::int64_t i = 0; i < tensor.elements(); ++i) {
      const std::int64_t row = i / columns, column = i % columns;
      const std::int64_t place = scaling == Scaling::kTensor   ? 0
                                 : scaling == Scaling::kRow128 ? column / 128 * shape[1] + row
                                                               : row / 128 * shape[1] + column / 128;
      numbers.push_back(from_byte(static_cast<std::uint8_t>(bytes[static_cast<std::size_t>(i)]), tensor.dtype) *
                        scales[static_cast<std::size_t>(place)]);
    }
    return numbers;
  }
};

TEST_P(QuantizeTest, LargestMagnitude) {
  for (const std::int64_t count : {1, 7, 4096, 100003}) {
    Numbers numbers = random_numbers(count, 1, type());
    numbers[static_cast<std::size_t>(count / 2)] = -17.5;
    const Tensor maximum = upload({2.0}, kFp32, Shape{1});
    backend().amax(upload(numbers, type(), Shape{count}), maximum);
    EXPECT_EQ(download(maximum)[0], 17.5) << count;
    backend().amax(upload({0.5}, type(), Shape{1}), maximum);
    EXPECT_EQ(download(maximum)[0], 17.5) << "what was there counts";
  }
}

TEST_P(QuantizeTest, Scales) {
  const Tensor maximum = upload({3.0}, kFp32, Shape{1}), scale = unset(kFp32, Shape{1});
  backend().scale_from_amax(maximum, kE5m2, scale);
  EXPECT_EQ(download(scale)[0], 3.0F / 57344.0F);
  backend().zero(maximum);
  backend().scale_from_amax(maximum, kE4m3, scale);
  EXPECT_EQ(download(scale)[0], 1.0);

  const Tensor history = upload({5.0, 1.0, 9.0}, kFp32, Shape{3}), now = upload({2.0}, kFp32, Shape{1});
  backend().scale_from_history(now, history, kE4m3, scale);
  EXPECT_EQ(download(history), (Numbers{2.0, 5.0, 1.0}));
  EXPECT_EQ(download(now)[0], 0.0);
  EXPECT_EQ(download(scale)[0], 5.0F / 448.0F);
}

TEST_P(QuantizeTest, OneScale) {
  for (const auto& [rows, columns] : {std::pair<std::int64_t, std::int64_t>{16, 16}, {144, 272}, {256, 128}, {48, 400}})
    for (const DType dtype : {kE4m3, kE5m2}) {
      const Numbers numbers = random_numbers(rows * columns, 3, type());
      const Tensor in = upload(numbers, type(), Shape{rows, columns}), maximum = upload({0.0}, kFp32, Shape{1});
      Tensor out = eight_bit(dtype, Shape{rows, columns}), transposed = allocate(dtype, Shape{columns, rows});
      const Tensor scale = upload({0.004}, kFp32, Shape{1});  // the largest saturate in e4m3
      out.scale = transposed.scale = scale.as<float>();
      backend().quantize(in, out, transposed, maximum);
      EXPECT_EQ(download(maximum)[0], magnitude(numbers));
      const std::vector<std::byte> bytes = download_bytes(out), turned = download_bytes(transposed);
      const float inverse = 1.0F / static_cast<float>(download(scale)[0]);
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t c = 0; c < columns; ++c) {
          const auto want = static_cast<std::byte>(
              to_byte(static_cast<float>(numbers[static_cast<std::size_t>(r * columns + c)]) * inverse, dtype));
          ASSERT_EQ(bytes[static_cast<std::size_t>(r * columns + c)], want) << r << ", " << c;
          ASSERT_EQ(turned[static_cast<std::size_t>(c * rows + r)], want) << r << ", " << c << " transposed";
        }
    }
}

TEST_P(QuantizeTest, ScalesOfBlocks) {
  constexpr std::int64_t kRows = 272, kColumns = 400;
  // Rows of very different sizes, which one scale could not hold.
  Numbers numbers = random_numbers(kRows * kColumns, 4, type());
  for (std::int64_t i = 0; i < kRows * kColumns; ++i)
    numbers[static_cast<std::size_t>(i)] =
        round_to(numbers[static_cast<std::size_t>(i)] * std::exp2(static_cast<double>(i / kColumns / 32)), type());
  Numbers turned(numbers.size());
  for (std::int64_t r = 0; r < kRows; ++r)
    for (std::int64_t c = 0; c < kColumns; ++c)
      turned[static_cast<std::size_t>(c * kRows + r)] = numbers[static_cast<std::size_t>(r * kColumns + c)];
  const Tensor in = upload(numbers, type(), Shape{kRows, kColumns});
  for (const Scaling scaling : {Scaling::kRow128, Scaling::kBlock128}) {
    const Tensor out = eight_bit(kE4m3, Shape{kRows, kColumns}, scaling);
    const Tensor transposed = eight_bit(kE4m3, Shape{kColumns, kRows}, scaling);
    backend().quantize_blocks(scaling, in, out, transposed);
    for (const auto& [tensor, want] : {std::pair{out, numbers}, std::pair{transposed, turned}}) {
      const Numbers got = widened(tensor, scaling), scales = scales_of(tensor, scaling);
      const std::int64_t columns = tensor.shape[1], stride = scales_shape(scaling, tensor.shape[0], columns)[1];
      for (std::int64_t i = 0; i < tensor.elements(); ++i) {
        const std::int64_t row = i / columns, column = i % columns;
        const std::int64_t place =
            scaling == Scaling::kRow128 ? column / 128 * stride + row : row / 128 * stride + column / 128;
        // Half a step of the number's own binade, or of the smallest one.
        const double wanted = want[static_cast<std::size_t>(i)];
        const double step =
            std::max(std::abs(wanted) / 16.0, scales[static_cast<std::size_t>(place)] * std::exp2(-10.0));
        ASSERT_LE(std::abs(got[static_cast<std::size_t>(i)] - wanted), step * 1.0001) << row << ", " << column;
      }
    }
  }
}

TEST_P(QuantizeTest, Products) {
  struct Case {
    std::int64_t m, n, k;
    DType a, b;
  };
  for (const Case& c : {Case{32, 48, 64, kE4m3, kE4m3}, {128, 256, 272, kE5m2, kE4m3}, {16, 16, 512, kE4m3, kE5m2}})
    for (const DType out : {DType::kBFloat16, kFp32})
      for (const bool accumulate : {false, true}) {
        const Tensor a = quantized(random_numbers(c.m * c.k, 1, type()), c.a, Shape{c.m, c.k});
        const Tensor b = quantized(random_numbers(c.n * c.k, 2, type(), 0.02), c.b, Shape{c.n, c.k});
        const Numbers old = random_numbers(c.m * c.n, 3, out), wide_a = widened(a), wide_b = widened(b);
        const Tensor d = upload(old, out, Shape{c.m, c.n});
        backend().gemm({.a = a, .b = b, .transpose_b = true, .d = d, .accumulate = accumulate});
        Numbers want = accumulate ? old : Numbers(old.size(), 0.0);
        for (std::int64_t i = 0; i < c.m; ++i)
          for (std::int64_t j = 0; j < c.n; ++j)
            for (std::int64_t p = 0; p < c.k; ++p)
              want[static_cast<std::size_t>(i * c.n + j)] +=
                  wide_a[static_cast<std::size_t>(i * c.k + p)] * wide_b[static_cast<std::size_t>(j * c.k + p)];
        // Tensor cores keep fewer bits of the sum than fp32 has.
        expect_close(download(d), want, out, fmt::format("{}x{}x{}", c.m, c.n, c.k), 1e-3);
      }
}

TEST_P(QuantizeTest, ProductsOfBlocks) {
  constexpr std::int64_t kM = 144, kN = 272, kK = 400;
  // Rows of very different sizes.
  const auto numbers = [&](std::int64_t rows, unsigned seed) {
    Numbers values = random_numbers(rows * kK, seed, type());
    for (std::int64_t i = 0; i < rows * kK; ++i)
      values[static_cast<std::size_t>(i)] =
          round_to(values[static_cast<std::size_t>(i)] * std::exp2(static_cast<double>(i / kK / 16) - 8.0), type());
    return values;
  };
  for (const auto& [a_scaling, b_scaling] : {std::pair{Scaling::kRow128, Scaling::kBlock128},
                                             {Scaling::kRow128, Scaling::kRow128},
                                             {Scaling::kBlock128, Scaling::kRow128}}) {
    const Tensor a = eight_bit(kE4m3, Shape{kM, kK}, a_scaling), b = eight_bit(kE4m3, Shape{kN, kK}, b_scaling);
    backend().quantize_blocks(a_scaling, upload(numbers(kM, 1), type(), Shape{kM, kK}), a, {});
    backend().quantize_blocks(b_scaling, upload(numbers(kN, 2), type(), Shape{kN, kK}), b, {});
    const Tensor d = unset(DType::kBFloat16, Shape{kM, kN});
    try {
      backend().gemm({.a = a,
                      .b = b,
                      .transpose_b = true,
                      .d = d,
                      .a_scaling = a_scaling,
                      .b_scaling = b_scaling,
                      .fast_accumulation = true});
    } catch (const UsageError& error) {
      GTEST_SKIP() << error.what();
    }
    const Numbers wide_a = widened(a, a_scaling), wide_b = widened(b, b_scaling);
    Numbers want(static_cast<std::size_t>(kM * kN));
    for (std::int64_t i = 0; i < kM; ++i)
      for (std::int64_t j = 0; j < kN; ++j)
        for (std::int64_t p = 0; p < kK; ++p)
          want[static_cast<std::size_t>(i * kN + j)] +=
              wide_a[static_cast<std::size_t>(i * kK + p)] * wide_b[static_cast<std::size_t>(j * kK + p)];
    expect_close(download(d), want, DType::kBFloat16,
                 fmt::format("scales {} and {}", static_cast<int>(a_scaling), static_cast<int>(b_scaling)));
  }
}

RAILYARD_OPERATION_TESTS(QuantizeTest);

}  // namespace
}  // namespace railyard::test
