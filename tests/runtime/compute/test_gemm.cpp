// Matrix products: every transposition, bias, addend, accumulation and output type.
#include "tests/runtime/compute/harness.hpp"

namespace railyard::test {
namespace {

class GemmTest : public OperationTest {};

struct Sizes {
  std::int64_t m, n, k;
};

Numbers product(const Numbers& a, bool transpose_a, const Numbers& b, bool transpose_b, Sizes s) {
  Numbers d(static_cast<std::size_t>(s.m * s.n));
  for (std::int64_t i = 0; i < s.m; ++i)
    for (std::int64_t j = 0; j < s.n; ++j) {
      double sum = 0.0;
      for (std::int64_t p = 0; p < s.k; ++p)
        sum += a[static_cast<std::size_t>(transpose_a ? p * s.m + i : i * s.k + p)] *
               b[static_cast<std::size_t>(transpose_b ? j * s.k + p : p * s.n + j)];
      d[static_cast<std::size_t>(i * s.n + j)] = sum;
    }
  return d;
}

TEST_P(GemmTest, AllTranspositionsAndShapes) {
  for (const Sizes s :
       {Sizes{1, 1, 1}, {1, 17, 5}, {33, 1, 7}, {5, 3, 129}, {64, 48, 32}, {67, 129, 65}, {257, 96, 31}})
    for (const bool transpose_a : {false, true})
      for (const bool transpose_b : {false, true})
        for (const DType out : {type(), DType::kFloat32}) {
          const Numbers a = random_numbers(s.m * s.k, 1, type()), b = random_numbers(s.k * s.n, 2, type());
          Gemm gemm;
          gemm.a = upload(a, type(), transpose_a ? Shape{s.k, s.m} : Shape{s.m, s.k});
          gemm.b = upload(b, type(), transpose_b ? Shape{s.n, s.k} : Shape{s.k, s.n});
          gemm.transpose_a = transpose_a;
          gemm.transpose_b = transpose_b;
          gemm.d = unset(out, Shape{s.m, s.n});
          backend().gemm(gemm);
          Numbers want = product(a, transpose_a, b, transpose_b, s);
          const std::string what = fmt::format("{}x{}x{} {}{} to {}", s.m, s.n, s.k, transpose_a ? "t" : "n",
                                               transpose_b ? "t" : "n", dtype_name(out));
          expect_close(download(gemm.d), want, out, what);
          gemm.accumulate = true;
          backend().gemm(gemm);
          for (double& number : want) number *= 2.0;
          expect_close(download(gemm.d), want, out, what + " accumulated");
        }
}

TEST_P(GemmTest, BiasAndAddend) {
  for (const Sizes s : {Sizes{9, 31, 17}, {65, 48, 33}, {128, 130, 64}}) {
    const Numbers a = random_numbers(s.m * s.k, 1, type()), b = random_numbers(s.k * s.n, 2, type());
    const Numbers bias = random_numbers(s.n, 3, type()), addend = random_numbers(s.m * s.n, 4, type());
    Gemm gemm;
    gemm.a = upload(a, type(), Shape{s.m, s.k});
    gemm.b = upload(b, type(), Shape{s.n, s.k});
    gemm.transpose_b = true;
    const Numbers plain = product(a, false, b, true, s);
    for (const bool with_bias : {false, true})
      for (const int with_addend : {0, 1, 2}) {  // 2: in place
        gemm.bias = with_bias ? upload(bias, type(), Shape{s.n}) : Tensor{};
        gemm.d = with_addend == 2 ? upload(addend, type(), Shape{s.m, s.n}) : unset(type(), Shape{s.m, s.n});
        gemm.addend = with_addend == 2 ? gemm.d : with_addend == 1 ? upload(addend, type(), Shape{s.m, s.n}) : Tensor{};
        backend().gemm(gemm);
        Numbers want = plain;
        for (std::size_t i = 0; i < want.size(); ++i)
          want[i] += (with_bias ? bias[i % bias.size()] : 0.0) + (with_addend != 0 ? addend[i] : 0.0);
        expect_close(download(gemm.d), want, type(), fmt::format("bias {} addend {}", with_bias, with_addend));
      }
  }
}

TEST_P(GemmTest, FusedPairsInAGroupOfOne) {
  const auto group = make_single_group(backend(), "one");
  const Sizes s{12, 20, 28};
  const Numbers a = random_numbers(s.m * s.k, 1, type()), b = random_numbers(s.k * s.n, 2, type());
  Gemm gemm;
  gemm.a = unset(type(), Shape{s.m, s.k});
  gemm.b = upload(b, type(), Shape{s.k, s.n});
  gemm.d = unset(type(), Shape{s.m, s.n});
  backend().all_gather_gemm(*group, upload(a, type(), Shape{s.m, s.k}), gemm.a, gemm);
  const Numbers want = product(a, false, b, false, s);
  expect_close(download(gemm.d), want, type(), "all_gather_gemm");
  EXPECT_EQ(download(gemm.a), a);
  const Tensor part = unset(type(), Shape{s.m, s.n});
  backend().gemm_reduce_scatter(*group, gemm, part);
  expect_close(download(part), want, type(), "gemm_reduce_scatter");
}

TEST_P(GemmTest, SameBitsEveryTime) {
  const Sizes s{130, 70, 257};
  Gemm gemm;
  gemm.a = upload(random_numbers(s.m * s.k, 1, type()), type(), Shape{s.m, s.k});
  gemm.b = upload(random_numbers(s.k * s.n, 2, type()), type(), Shape{s.k, s.n});
  gemm.d = unset(type(), Shape{s.m, s.n});
  backend().gemm(gemm);
  const auto first = download_bytes(gemm.d);
  for (int run = 0; run < 5; ++run) {
    backend().gemm(gemm);
    EXPECT_EQ(download_bytes(gemm.d), first);
  }
}

RAILYARD_OPERATION_TESTS(GemmTest);

}  // namespace
}  // namespace railyard::test
