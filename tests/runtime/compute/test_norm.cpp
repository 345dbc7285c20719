// LayerNorm, LayerNorm1p and RMSNorm against their formulas.
#include "tests/runtime/compute/harness.hpp"

namespace railyard::test {
namespace {

class NormTest : public OperationTest {};

struct Reference {
  Numbers y, mean, rstd, grad_x, grad_weight, grad_bias;
};

Reference reference(NormKind kind, const Numbers& x, const Numbers& weight, const Numbers& bias, const Numbers& grad_y,
                    double epsilon, std::size_t columns) {
  const std::size_t rows = x.size() / columns;
  Reference r{Numbers(x.size()), Numbers(rows), Numbers(rows), Numbers(x.size()), Numbers(columns), Numbers(columns)};
  const bool center = kind != NormKind::kRmsNorm;
  const double offset = kind == NormKind::kLayerNorm1p ? 1.0 : 0.0;
  const auto width = static_cast<double>(columns);
  for (std::size_t row = 0; row < rows; ++row) {
    const double* in = &x[row * columns];
    double mean = 0.0, variance = 0.0, sum_g = 0.0, sum_gx = 0.0;
    for (std::size_t i = 0; i < columns && center; ++i) mean += in[i] / width;
    for (std::size_t i = 0; i < columns; ++i) variance += (in[i] - mean) * (in[i] - mean) / width;
    const double rstd = 1.0 / std::sqrt(variance + epsilon);
    r.mean[row] = mean;
    r.rstd[row] = rstd;
    for (std::size_t i = 0; i < columns; ++i) {
      const double xhat = (in[i] - mean) * rstd, gradient = grad_y[row * columns + i];
      r.y[row * columns + i] = xhat * (weight[i] + offset) + (bias.empty() ? 0.0 : bias[i]);
      r.grad_weight[i] += gradient * xhat;
      r.grad_bias[i] += gradient;
      sum_g += gradient * (weight[i] + offset);
      sum_gx += gradient * (weight[i] + offset) * xhat;
    }
    for (std::size_t i = 0; i < columns; ++i) {
      const double xhat = (in[i] - mean) * rstd, g = grad_y[row * columns + i] * (weight[i] + offset);
      r.grad_x[row * columns + i] = rstd * (g - (center ? sum_g / width : 0.0) - xhat * sum_gx / width);
    }
  }
  return r;
}

TEST_P(NormTest, ForwardAndBackward) {
  for (const NormKind kind : {NormKind::kLayerNorm, NormKind::kRmsNorm, NormKind::kLayerNorm1p})
    for (const auto& [rows, columns] :
         {std::pair<std::int64_t, std::int64_t>{1, 2}, {3, 7}, {33, 16}, {70, 100}, {129, 288}, {5, 1025}})
      for (const bool with_bias : {false, true}) {
        const std::int64_t count = rows * columns;
        const Numbers x = random_numbers(count, 1, type(), 1.5, 0.3),
                      weight = random_numbers(columns, 2, type(), 0.3, 1.0);
        const Numbers bias = with_bias ? random_numbers(columns, 3, type()) : Numbers{};
        const Numbers grad_y = random_numbers(count, 4, type()), residual = random_numbers(count, 5, type());
        const Reference want = reference(kind, x, weight, bias, grad_y, 1e-5, static_cast<std::size_t>(columns));
        const bool center = kind != NormKind::kRmsNorm;
        const std::string what = fmt::format("kind {} of {} x {}: ", static_cast<int>(kind), rows, columns);

        const Tensor input = upload(x, type(), Shape{rows, columns}), gamma = upload(weight, type(), Shape{columns});
        const Tensor beta = with_bias ? upload(bias, type(), Shape{columns}) : Tensor{};
        const Tensor y = unset(type(), Shape{rows, columns}), rstd = unset(DType::kFloat32, Shape{rows});
        const Tensor mean = center ? unset(DType::kFloat32, Shape{rows}) : Tensor{};
        backend().norm_forward(kind, input, gamma, beta, 1e-5F, y, mean, rstd);
        expect_close(download(y), want.y, type(), what + "y");
        expect_close(download(rstd), want.rstd, DType::kFloat32, what + "rstd");
        if (center) expect_close(download(mean), want.mean, DType::kFloat32, what + "mean");

        const Tensor gradient = upload(grad_y, type(), Shape{rows, columns});
        const Tensor grad_x = unset(type(), Shape{rows, columns});
        const Tensor grad_weight = upload(Numbers(weight.size(), 2.0), DType::kFloat32, Shape{columns});
        const Tensor grad_bias =
            with_bias ? upload(Numbers(weight.size(), -1.0), DType::kFloat32, Shape{columns}) : Tensor{};
        backend().norm_backward(kind, gradient, input, gamma, mean, rstd, {}, grad_x, grad_weight, grad_bias);
        // Two columns leave almost nothing of the gradient: compare against the size of its terms.
        if (columns > 2) expect_close(download(grad_x), want.grad_x, type(), what + "grad_x", 1e-5, 2e-2);
        Numbers sums = want.grad_weight;
        for (double& number : sums) number += 2.0;
        expect_close(download(grad_weight), sums, DType::kFloat32, what + "grad_weight", 1e-5);
        if (with_bias) {
          sums = want.grad_bias;
          for (double& number : sums) number -= 1.0;
          expect_close(download(grad_bias), sums, DType::kFloat32, what + "grad_bias", 1e-5);
        }

        // With the residual's gradient, in its place, weights not wanted.
        const Tensor addend = upload(residual, type(), Shape{rows, columns});
        backend().norm_backward(kind, gradient, input, gamma, mean, rstd, addend, addend, {}, {});
        Numbers total = want.grad_x;
        for (std::size_t i = 0; i < total.size(); ++i) total[i] += residual[i];
        if (columns > 2) expect_close(download(addend), total, type(), what + "grad_x + addend", 1e-5, 2e-2);
      }
}

RAILYARD_OPERATION_TESTS(NormTest);

}  // namespace
}  // namespace railyard::test
