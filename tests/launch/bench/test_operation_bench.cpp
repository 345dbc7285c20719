// What `railyard bench gemm`, `attention` and `comm` measure, on a CPU and in small.
#include <gtest/gtest.h>

#include "launch/bench/operation_bench.hpp"
#include "runtime/base/error.hpp"

namespace railyard::launch {
namespace {

TEST(OperationBench, ShapesAreThreeNumbers) {
  const GemmShape shape = parse_gemm_shape("12x345x6");
  EXPECT_EQ(shape.m, 12);
  EXPECT_EQ(shape.n, 345);
  EXPECT_EQ(shape.k, 6);
  for (const char* wrong :
       {"", "12", "12x3", "12x3x", "x3x4", "0x1x1", "-1x1x1", "1x1x1x1", "1x1x1 ", "99999999999x1x1"})
    EXPECT_THROW((void)parse_gemm_shape(wrong), UsageError) << wrong;
}

TEST(OperationBench, RatesArePositiveAndOfWhatWasAsked) {
  const auto backend = make_cpu_backend({.threads = 1});
  const GemmRate gemm = measure_gemm(*backend, "fp32", {64, 48, 32});
  EXPECT_EQ(gemm.m * gemm.n * gemm.k, 64 * 48 * 32);
  EXPECT_GT(gemm.tflops, 0.0);
  const AttentionRate attention =
      measure_attention(*backend, "fp32", {.samples = 1, .tokens = 64, .heads = 2, .kv_heads = 1, .head_dim = 16});
  EXPECT_EQ(attention.tokens, 64);
  EXPECT_GT(attention.forward_tflops, 0.0);
  EXPECT_GT(attention.backward_tflops, 0.0);
  EXPECT_THROW((void)measure_gemm(*backend, "int4", {16, 16, 16}), UsageError);
  EXPECT_THROW((void)measure_attention(*backend, "fp8", {1, 16, 1, 1, 16}), UsageError);
}

}  // namespace
}  // namespace railyard::launch
