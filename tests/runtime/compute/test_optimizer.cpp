// Gradient norm, clipping and AdamW.
#include "tests/runtime/compute/harness.hpp"

namespace railyard::test {
namespace {

class OptimizerTest : public OperationTest {
 protected:
  OptimizerScalars scalars(const Numbers& values) {
    return {upload(values, DType::kFloat32, Shape{OptimizerScalars::kCount})};
  }
};

TEST_P(OptimizerTest, SquaredNormAddsUp) {
  for (const std::int64_t count : {1, 15, 100, 16384, 16385, 50001}) {
    const Numbers numbers = random_numbers(count, 1, DType::kFloat32);
    const Tensor sum = upload({2.0}, DType::kFloat64, Shape{1});
    backend().squared_norm(upload(numbers, DType::kFloat32, Shape{count}), sum);
    double want = 2.0;
    for (const double number : numbers) want += number * number;
    EXPECT_NEAR(download(sum)[0], want, 1e-10 * want);
  }
}

TEST_P(OptimizerTest, SquaredNormDoesNotDependOnThreads) {
  if (!backend().is_host_memory()) GTEST_SKIP() << "threads are the CPU backend's";
  const Numbers numbers = random_numbers(100003, 1, DType::kFloat32);
  const Tensor sum = upload({0.0}, DType::kFloat64, Shape{1});
  backend().squared_norm(upload(numbers, DType::kFloat32, Shape{100003}), sum);
  const auto single = make_cpu_backend({.threads = 1});
  const Tensor other = upload({0.0}, DType::kFloat64, Shape{1});
  single->squared_norm(upload(numbers, DType::kFloat32, Shape{100003}), other);
  EXPECT_EQ(download(sum), download(other));
}

TEST_P(OptimizerTest, ClipScale) {
  const OptimizerScalars at = scalars(Numbers(OptimizerScalars::kCount, 7.0));
  const auto run = [&](double squares, float factor, float clip) {
    backend().clip_scale(upload({squares}, DType::kFloat64, Shape{1}), factor, clip, at);
    return download(at.values);
  };
  Numbers got = run(16.0, 0.5F, 1.0F);  // a norm of 2, clipped to 1
  EXPECT_NEAR(got[OptimizerScalars::kGradientNorm], 2.0, 1e-6);
  EXPECT_NEAR(got[OptimizerScalars::kGradientScale], 0.5 / (2.0 + 1e-6), 1e-6);
  EXPECT_EQ(got[OptimizerScalars::kFinite], 1.0);
  EXPECT_EQ(got[OptimizerScalars::kLearningRate], 7.0);
  EXPECT_EQ(got[OptimizerScalars::kBiasCorrection2], 7.0);
  got = run(16.0, 0.5F, 10.0F);
  EXPECT_EQ(got[OptimizerScalars::kGradientScale], 0.5);
  got = run(16.0, 0.5F, 0.0F);
  EXPECT_EQ(got[OptimizerScalars::kGradientScale], 0.5);
  EXPECT_EQ(run(static_cast<double>(INFINITY), 1.0F, 1.0F)[OptimizerScalars::kFinite], 0.0);
  EXPECT_EQ(run(static_cast<double>(NAN), 1.0F, 1.0F)[OptimizerScalars::kFinite], 0.0);
  EXPECT_EQ(run(1.0, 1.0F, 1.0F)[OptimizerScalars::kFinite], 1.0);
}

TEST_P(OptimizerTest, AdamWSteps) {
  for (const std::int64_t count : {1, 17, 4097, 10007}) {
    Numbers weight = random_numbers(count, 1, DType::kFloat32), m(weight.size()), v(weight.size());
    AdamW adam;
    const bool split = type() == DType::kBFloat16;
    const Tensor initial = upload(weight, DType::kFloat32, Shape{count});
    adam.parameter = initial;
    if (split) {
      adam.parameter = unset(type(), Shape{count});
      adam.remainder = allocate(DType::kUInt16, Shape{count});
      backend().split_master(initial, adam.parameter, adam.remainder);
    }
    // The fp32 weights, by the host's own account of the split.
    const auto master = [&] {
      if (!split) return download(adam.parameter);
      std::vector<std::uint16_t> upper(static_cast<std::size_t>(count)), lower(upper.size());
      backend().copy_to_host(adam.parameter, std::as_writable_bytes(std::span(upper)));
      backend().copy_to_host(adam.remainder, std::as_writable_bytes(std::span(lower)));
      Numbers numbers;
      for (std::size_t i = 0; i < upper.size(); ++i) numbers.push_back(join_master({upper[i], lower[i]}));
      return numbers;
    };
    EXPECT_EQ(master(), weight);
    adam.exp_avg = upload(m, DType::kFloat32, Shape{count});
    adam.exp_avg_sq = upload(v, DType::kFloat32, Shape{count});
    adam.grad = allocate(DType::kFloat32, Shape{count});
    adam.beta1 = 0.9F;
    adam.beta2 = 0.95F;
    adam.weight_decay = 0.1F;
    const double lr = 0.01, scale = 0.5;
    for (int step = 1; step <= 3; ++step) {
      const Numbers grad = random_numbers(count, 10U + static_cast<unsigned>(step), DType::kFloat32);
      const double bc1 = 1.0 - std::pow(0.9, step), bc2 = 1.0 - std::pow(0.95, step);
      adam.grad = upload(grad, DType::kFloat32, Shape{count});
      backend().adamw(adam, scalars({lr, scale, bc1, bc2, 0.0, 1.0}));
      for (std::size_t i = 0; i < weight.size(); ++i) {
        const double g = grad[i] * scale;
        m[i] = 0.9 * m[i] + 0.1 * g;
        v[i] = 0.95 * v[i] + 0.05 * g * g;
        weight[i] -= lr * (m[i] / bc1 / (std::sqrt(v[i] / bc2) + 1e-8) + 0.1 * weight[i]);
      }
    }
    expect_close(master(), weight, DType::kFloat32, "weights");
    expect_close(download(adam.exp_avg), m, DType::kFloat32, "first moment");
    expect_close(download(adam.exp_avg_sq), v, DType::kFloat32, "second moment");
    const Numbers parameter = download(adam.parameter), updated = master();
    for (std::size_t i = 0; i < updated.size(); ++i) EXPECT_EQ(parameter[i], round_to(updated[i], type()));
    // A step that is not finite changes nothing.
    backend().adamw(adam, scalars({lr, scale, 1.0, 1.0, 0.0, 0.0}));
    EXPECT_EQ(master(), updated);
  }
}

RAILYARD_OPERATION_TESTS(OptimizerTest);

}  // namespace
}  // namespace railyard::test
