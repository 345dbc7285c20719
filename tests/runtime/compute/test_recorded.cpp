// Captured graphs and stored choices of algorithms.
#include "runtime/base/json.hpp"
#include "tests/runtime/compute/harness.hpp"

namespace railyard::test {
namespace {

class RecordedTest : public OperationTest {
 protected:
  // One small layer: product, norm and activation, forward and backward, out of tensors made here.
  struct Layer {
    Tensor x, weight, gain, product, normed, rstd, activated, grad, grad_weight;
  };
  Layer make_layer() {
    constexpr std::int64_t kRows = 48, kIn = 64, kOut = 96;
    return {upload(random_numbers(kRows * kIn, 1, type()), type(), Shape{kRows, kIn}),
            upload(random_numbers(kOut * kIn, 2, type()), type(), Shape{kOut, kIn}),
            upload(random_numbers(kOut, 3, type(), 0.1, 1.0), type(), Shape{kOut}),
            unset(type(), Shape{kRows, kOut}),
            unset(type(), Shape{kRows, kOut}),
            unset(DType::kFloat32, Shape{kRows}),
            unset(type(), Shape{kRows, kOut}),
            unset(type(), Shape{kRows, kOut}),
            upload(Numbers(kOut * kIn, 0.0), DType::kFloat32, Shape{kOut, kIn})};
  }
  void run(const Layer& l) {
    backend().gemm({.a = l.x, .b = l.weight, .transpose_b = true, .d = l.product});
    backend().norm_forward(NormKind::kRmsNorm, l.product, l.gain, {}, 1e-5F, l.normed, {}, l.rstd);
    backend().activation_forward(Activation::kGeluTanh, l.normed, l.activated);
    backend().activation_backward(Activation::kGeluTanh, l.normed, l.activated, l.grad, {});
    backend().gemm({.a = l.grad, .transpose_a = true, .b = l.x, .d = l.grad_weight, .accumulate = true});
  }
};

TEST_P(RecordedTest, AGraphDoesWhatItsOperationsDo) {
  const Layer eager = make_layer(), recorded = make_layer();
  run(eager);
  run(eager);
  run(recorded);  // chooses algorithms and workspaces
  if (backend().begin_capture()) {
    run(recorded);
    const auto graph = backend().end_capture();
    ASSERT_NE(graph, nullptr);
    backend().zero(recorded.grad_weight);
    backend().launch(*graph);
    backend().launch(*graph);
  } else {
    run(recorded);
  }
  EXPECT_EQ(download_bytes(recorded.activated), download_bytes(eager.activated));
  EXPECT_EQ(download_bytes(recorded.grad_weight), download_bytes(eager.grad_weight));
}

TEST_P(RecordedTest, ChoicesCarryOver) {
  const Layer first = make_layer();
  run(first);
  const std::string choices = backend().algorithms();
  if (choices.empty()) GTEST_SKIP() << "nothing is chosen here";
  const Json json = parse_json(choices, "choices");
  EXPECT_EQ(json["algorithms"].size(), 2U);

  const auto other = std::get<0>(GetParam()).make();
  other->set_algorithms(choices);
  EXPECT_EQ(parse_json(other->algorithms(), "choices"), json);
  const Layer second = make_layer();
  other->gemm({.a = second.x, .b = second.weight, .transpose_b = true, .d = second.product});
  other->synchronize();
  EXPECT_EQ(download_bytes(second.product), download_bytes(first.product));
  EXPECT_EQ(parse_json(other->algorithms(), "choices"), json);

  // What does not fit is ignored; what is no JSON is refused.
  Json foreign = json;
  foreign["library"] = 1;
  other->set_algorithms(foreign.dump());
  EXPECT_THROW(other->set_algorithms("{"), UsageError);
}

RAILYARD_OPERATION_TESTS(RecordedTest);

}  // namespace
}  // namespace railyard::test
