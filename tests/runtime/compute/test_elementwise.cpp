// Fill, normal numbers, cast, add, scale, bias gradient.
#include "tests/runtime/compute/harness.hpp"

namespace railyard::test {
namespace {

class ElementwiseTest : public OperationTest {};

TEST_P(ElementwiseTest, ZeroAndFill) {
  const Tensor tensor = unset(type(), Shape{7, 11});
  backend().fill(tensor, 1.5F);
  EXPECT_EQ(download(tensor), Numbers(77, 1.5));
  backend().zero(tensor);
  EXPECT_EQ(download(tensor), Numbers(77, 0.0));
  const Tensor wide = unset(DType::kFloat64, Shape{3});
  backend().fill(wide, 0.25F);
  EXPECT_EQ(download(wide), Numbers(3, 0.25));
  backend().zero(wide);
  EXPECT_EQ(download(wide), Numbers(3, 0.0));
}

TEST_P(ElementwiseTest, Casts) {
  const Numbers numbers = random_numbers(1037, 3, DType::kFloat32);
  const Tensor fp32 = upload(numbers, DType::kFloat32, Shape{1037}), bf16 = unset(DType::kBFloat16, Shape{1037});
  backend().cast(fp32, bf16);
  Numbers rounded(numbers.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) rounded[i] = round_to(numbers[i], DType::kBFloat16);
  EXPECT_EQ(download(bf16), rounded);
  const Tensor back = unset(DType::kFloat32, Shape{1037});
  backend().cast(bf16, back);
  EXPECT_EQ(download(back), rounded);
}

TEST_P(ElementwiseTest, CastKeepsNanAndInfinity) {
  const Tensor fp32 = upload({NAN, INFINITY, -INFINITY, 3.4e38}, DType::kFloat32, Shape{4});
  const Tensor bf16 = unset(DType::kBFloat16, Shape{4});
  backend().cast(fp32, bf16);
  const Numbers got = download(bf16);
  EXPECT_TRUE(std::isnan(got[0]));
  EXPECT_EQ(got[1], INFINITY);
  EXPECT_EQ(got[2], -INFINITY);
  EXPECT_EQ(got[3], INFINITY);
}

TEST_P(ElementwiseTest, AddsAndScales) {
  for (const std::int64_t count : {1, 15, 16, 17, 4099, 20011}) {
    const Numbers a = random_numbers(count, 1, type()), b = random_numbers(count, 2, type());
    const Tensor left = upload(a, type(), Shape{count}), right = upload(b, type(), Shape{count});
    const Tensor out = unset(type(), Shape{count});
    backend().add(left, right, out);
    Numbers want(a.size());
    for (std::size_t i = 0; i < a.size(); ++i) want[i] = a[i] + b[i];
    expect_close(download(out), want, type(), "add");
    backend().add(left, right, left);
    expect_close(download(left), want, type(), "add in place");
    backend().scale(right, -0.5F);
    for (std::size_t i = 0; i < b.size(); ++i) want[i] = -0.5 * b[i];
    expect_close(download(right), want, type(), "scale");
  }
}

TEST_P(ElementwiseTest, BiasGradientAddsColumnSums) {
  for (const auto& [rows, columns] : {std::pair{1, 1}, {5, 7}, {33, 16}, {257, 65}, {70, 1000}}) {
    const Numbers grad = random_numbers(rows * columns, 4, type()), start = random_numbers(columns, 5, DType::kFloat32);
    const Tensor sums = upload(start, DType::kFloat32, Shape{columns});
    backend().bias_gradient(upload(grad, type(), Shape{rows, columns}), sums);
    Numbers want = start;
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t column = 0; column < columns; ++column)
        want[static_cast<std::size_t>(column)] += grad[static_cast<std::size_t>(row * columns + column)];
    expect_close(download(sums), want, DType::kFloat32, "bias gradient");
  }
}

// The definition in backend.hpp, element by element.
Numbers normal_reference(std::uint64_t key, std::int64_t rows, std::int64_t columns, std::int64_t first_row,
                         std::int64_t first_column, std::int64_t logical_columns, double mean, double deviation) {
  Numbers numbers;
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t column = 0; column < columns; ++column) {
      const auto element = static_cast<std::uint64_t>((first_row + row) * logical_columns + first_column + column);
      const std::uint64_t block = element / 4, lane = element % 4;
      const PhiloxBlock bits =
          philox4x32(static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0, 0, key);
      const double radius = std::sqrt(-2.0 * std::log(static_cast<double>(uniform_open(bits.x[lane / 2 * 2]))));
      const double angle = 2.0 * M_PI * static_cast<double>(uniform_open(bits.x[lane / 2 * 2 + 1]));
      numbers.push_back(mean + deviation * radius * (lane % 2 == 0 ? std::cos(angle) : std::sin(angle)));
    }
  return numbers;
}

TEST_P(ElementwiseTest, NormalNumbersFollowTheDefinition) {
  const Tensor out = unset(type(), Shape{13, 29});
  backend().fill_normal(out, 0x1234567890ULL, 5, 3, 61, 0.5F, 2.0F);
  expect_close(download(out), normal_reference(0x1234567890ULL, 13, 29, 5, 3, 61, 0.5, 2.0), type(), "normal");
}

TEST_P(ElementwiseTest, NormalNumbersAreTheSameInAnyPiece) {
  const std::int64_t rows = 37, columns = 53;
  const Tensor whole = unset(type(), Shape{rows, columns});
  backend().fill_normal(whole, 77, 0, 0, columns, 0.0F, 0.02F);
  const Numbers all = download(whole);
  const Tensor piece = unset(type(), Shape{11, 17});
  backend().fill_normal(piece, 77, 9, 31, columns, 0.0F, 0.02F);
  const Numbers part = download(piece);
  for (std::size_t row = 0; row < 11; ++row)
    for (std::size_t column = 0; column < 17; ++column)
      EXPECT_EQ(part[row * 17 + column], all[(9 + row) * 53 + 31 + column]);
}

RAILYARD_OPERATION_TESTS(ElementwiseTest);

}  // namespace
}  // namespace railyard::test
