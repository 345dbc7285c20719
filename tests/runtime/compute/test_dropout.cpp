// Dropout and the residual stream: masks by the definition in backend.hpp.
#include "tests/runtime/compute/harness.hpp"

namespace railyard::test {
namespace {

class DropoutTest : public OperationTest {
 protected:
  // Samples beyond 32 bits, positions that do not start at zero.
  Dropout make(float probability, std::int64_t rows) {
    samples_.clear();
    positions_.clear();
    for (std::int64_t row = 0; row < rows; ++row) {
      samples_.push_back((std::int64_t{1} << 33U) + row / 5);
      positions_.push_back(static_cast<std::int32_t>(row % 5 + 3));
    }
    Dropout dropout;
    dropout.probability = probability;
    dropout.key = 0xfedcba9876543210ULL;
    dropout.sample_ids = upload_integers(samples_, DType::kInt64);
    dropout.positions = upload_integers(positions_, DType::kInt32);
    return dropout;
  }
  [[nodiscard]] double factor(const Dropout& dropout, std::int64_t row, std::int64_t column) const {
    return dropout_factor(dropout, samples_[static_cast<std::size_t>(row)], positions_[static_cast<std::size_t>(row)],
                          column, dropout.key);
  }

 private:
  std::vector<std::int64_t> samples_;
  std::vector<std::int32_t> positions_;
};

TEST_P(DropoutTest, MasksByTheDefinition) {
  for (const auto& [rows, columns] :
       {std::pair<std::int64_t, std::int64_t>{1, 1}, {7, 5}, {23, 63}, {9, 64}, {11, 131}, {64, 288}})
    for (const float probability : {0.1F, 0.5F}) {
      const Numbers x = random_numbers(rows * columns, 1, type());
      const Dropout dropout = make(probability, rows);
      const Tensor input = upload(x, type(), Shape{rows, columns}), output = unset(type(), Shape{rows, columns});
      backend().dropout(input, dropout, output);
      Numbers want(x.size());
      for (std::int64_t row = 0; row < rows; ++row)
        for (std::int64_t column = 0; column < columns; ++column) {
          const auto index = static_cast<std::size_t>(row * columns + column);
          want[index] = x[index] * factor(dropout, row, column);
        }
      const Numbers got = download(output);
      for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i] == 0.0, want[i] == 0.0) << "element " << i;
      expect_close(got, want, type(), "dropout");
      backend().dropout(input, dropout, input);
      EXPECT_EQ(download(input), got);
    }
}

TEST_P(DropoutTest, ResidualAdd) {
  for (const float probability : {0.0F, 0.3F})
    for (const bool with_bias : {false, true})
      for (const int in_place : {0, 1, 2}) {
        const std::int64_t rows = 19, columns = 77;
        const Numbers x = random_numbers(rows * columns, 1, type()), bias = random_numbers(columns, 2, type());
        const Numbers residual = random_numbers(rows * columns, 3, type());
        const Dropout dropout = probability == 0.0F ? Dropout{} : make(probability, rows);
        const Tensor input = upload(x, type(), Shape{rows, columns}),
                     stream = upload(residual, type(), Shape{rows, columns});
        const Tensor output = in_place == 0 ? unset(type(), Shape{rows, columns}) : in_place == 1 ? stream : input;
        backend().residual_add(input, with_bias ? upload(bias, type(), Shape{columns}) : Tensor{}, dropout, stream,
                               output);
        Numbers want(x.size());
        for (std::int64_t row = 0; row < rows; ++row)
          for (std::int64_t column = 0; column < columns; ++column) {
            const auto index = static_cast<std::size_t>(row * columns + column);
            const double keep = probability == 0.0F ? 1.0 : factor(dropout, row, column);
            want[index] =
                residual[index] + keep * (x[index] + (with_bias ? bias[static_cast<std::size_t>(column)] : 0.0));
          }
        expect_close(download(output), want, type(), "residual_add");
      }
}

TEST_P(DropoutTest, DropsTheRightShare) {
  const std::int64_t rows = 64, columns = 512;
  const Dropout dropout = make(0.2F, rows);
  const Tensor ones = upload(Numbers(static_cast<std::size_t>(rows * columns), 1.0), type(), Shape{rows, columns});
  backend().dropout(ones, dropout, ones);
  double dropped = 0.0;
  for (const double number : download(ones)) dropped += number == 0.0 ? 1.0 : 0.0;
  EXPECT_NEAR(dropped / static_cast<double>(rows * columns), 0.2, 0.01);
}

RAILYARD_OPERATION_TESTS(DropoutTest);

}  // namespace
}  // namespace railyard::test
