// Activations, plain and gated, with their derivatives.
#include "tests/runtime/compute/harness.hpp"

namespace railyard::test {
namespace {

class ActivationTest : public OperationTest {};

struct Curve {
  double value, slope;
};

Curve curve(Activation kind, double x) {
  switch (kind) {
    case Activation::kGelu:
    case Activation::kGeglu: {
      const double phi = 0.5 * std::erfc(-x / std::sqrt(2.0));
      return {x * phi, phi + x * std::exp(-0.5 * x * x) / std::sqrt(2.0 * M_PI)};
    }
    case Activation::kGeluTanh: {
      const double scale = std::sqrt(2.0 / M_PI), t = std::tanh(scale * (x + 0.044715 * x * x * x));
      return {0.5 * x * (1.0 + t), 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * scale * (1.0 + 3.0 * 0.044715 * x * x)};
    }
    case Activation::kSwiglu: {
      const double s = 1.0 / (1.0 + std::exp(-x));
      return {x * s, s * (1.0 + x * (1.0 - s))};
    }
    case Activation::kSquaredRelu:
      return {x > 0.0 ? x * x : 0.0, x > 0.0 ? 2.0 * x : 0.0};
  }
  return {};
}

TEST_P(ActivationTest, ForwardAndBackward) {
  for (const Activation kind :
       {Activation::kGelu, Activation::kGeluTanh, Activation::kSwiglu, Activation::kGeglu, Activation::kSquaredRelu})
    for (const auto& [rows, columns] : {std::pair<std::int64_t, std::int64_t>{1, 1}, {3, 5}, {17, 100}, {64, 257}}) {
      const std::int64_t width = is_gated(kind) ? 2 * columns : columns;
      const Numbers u = random_numbers(rows * width, 1, type(), 2.0),
                    grad_s = random_numbers(rows * columns, 2, type());
      Numbers s(grad_s.size()), grad_u(u.size());
      for (std::int64_t row = 0; row < rows; ++row)
        for (std::int64_t column = 0; column < columns; ++column) {
          const auto gate = static_cast<std::size_t>(row * width + column),
                     up = gate + static_cast<std::size_t>(columns);
          const auto index = static_cast<std::size_t>(row * columns + column);
          const Curve at = curve(kind, u[gate]);
          const double factor = is_gated(kind) ? u[up] : 1.0;
          s[index] = at.value * factor;
          grad_u[gate] = grad_s[index] * factor * at.slope;
          if (is_gated(kind)) grad_u[up] = grad_s[index] * at.value;
        }
      const std::string what = fmt::format("activation {} of {} x {}: ", static_cast<int>(kind), rows, columns);
      const Tensor input = upload(u, type(), Shape{rows, width}), output = unset(type(), Shape{rows, columns});
      backend().activation_forward(kind, input, output);
      expect_close(download(output), s, type(), what + "s");
      const Tensor gradient = upload(grad_s, type(), Shape{rows, columns});
      const Tensor grad = unset(type(), Shape{rows, width}), again = unset(type(), Shape{rows, columns});
      backend().activation_backward(kind, input, gradient, grad, {});
      expect_close(download(grad), grad_u, type(), what + "grad_u");
      backend().activation_backward(kind, input, gradient, input, again);
      expect_close(download(input), grad_u, type(), what + "grad_u in place");
      expect_close(download(again), s, type(), what + "s again");
    }
}

// Where exp over- or underflows in a careless formula.
TEST_P(ActivationTest, ExtremeInputsStayExact) {
  const Numbers u{0.0, 1e-6, -1e-6, 20.0, -20.0, 80.0, -80.0, 100.0, -100.0, 1e4, -1e4};
  for (const Activation kind : {Activation::kGelu, Activation::kGeluTanh, Activation::kSquaredRelu}) {
    const auto count = static_cast<std::int64_t>(u.size());
    const Tensor input = upload(u, type(), Shape{1, count}), output = unset(type(), Shape{1, count});
    backend().activation_forward(kind, input, output);
    const Numbers exact = download(input), got = download(output);
    for (std::size_t i = 0; i < u.size(); ++i) {
      const double want = curve(kind, exact[i]).value;
      EXPECT_NEAR(got[i], want, (type() == DType::kFloat32 ? 1e-6 : 8e-3) * std::abs(exact[i]) + std::abs(want) * 4e-3)
          << "activation " << static_cast<int>(kind) << " at " << exact[i];
    }
    const Tensor ones = upload(Numbers(u.size(), 1.0), type(), Shape{1, count}), grad = unset(type(), Shape{1, count});
    backend().activation_backward(kind, input, ones, grad, {});
    const Numbers slopes = download(grad);
    for (std::size_t i = 0; i < u.size(); ++i) {
      const double want = curve(kind, exact[i]).slope;
      EXPECT_NEAR(slopes[i], want, 2e-6 + (type() == DType::kFloat32 ? 1e-6 : 8e-3) * std::abs(want))
          << "slope " << static_cast<int>(kind) << " at " << exact[i];
    }
  }
}

RAILYARD_OPERATION_TESTS(ActivationTest);

}  // namespace
}  // namespace railyard::test
