// What the tests of operations share: the backends under test, tensors from and to float64, random numbers, comparison.
//
// A test computes what an operation should give in plain float64 loops from inputs that the compute dtype can hold, and
// compares by norm: an error of fp32 rounding is far below the tolerance, a wrong element far above it.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "runtime/base/philox.hpp"
#include "runtime/comm/load.hpp"
#include "runtime/compute/backend.hpp"
#include "runtime/compute/cpu/cpu_backend.hpp"

namespace railyard::test {

using Numbers = std::vector<double>;

struct BackendCase {
  std::string name;
  std::function<std::unique_ptr<Backend>()> make;
};

inline bool backend_wanted(const std::string& name) {
  const char* list = std::getenv("RAILYARD_TEST_BACKENDS");
  return list == nullptr || ("," + std::string(list) + ",").find("," + name + ",") != std::string::npos;
}

// The CPU with one thread and with three, on every instruction set of this processor, and CUDA when it can be made or
// RAILYARD_TEST_BACKENDS demands it.
inline std::vector<BackendCase> backends() {
  std::vector<BackendCase> cases;
  if (backend_wanted("cpu")) {
    cases.push_back({"cpu", [] { return make_cpu_backend({.threads = 1}); }});
    for (const cpu::Kernels* kernels : cpu::usable_kernels())
      cases.push_back({fmt::format("cpu3_{}", kernels->name),
                       [kernels] { return std::make_unique<cpu::CpuBackend>(CpuOptions{.threads = 3}, *kernels); }});
  }
  if (backend_wanted("cuda")) {
    const auto make = [] { return make_cuda_backend({}); };
    try {
      make();
      cases.push_back({"cuda", make});
    } catch (const RunError&) {
      // Made again in the tests, where the reason is printed.
      if (std::getenv("RAILYARD_TEST_BACKENDS") != nullptr) cases.push_back({"cuda", make});
    }
  }
  return cases;
}

inline double round_to(double value, DType type) {
  return type == DType::kBFloat16 ? bf16_to_float(float_to_bf16(static_cast<float>(value))) : static_cast<float>(value);
}

// Normal numbers that `type` holds exactly.
inline Numbers random_numbers(std::int64_t count, unsigned seed, DType type, double deviation = 1.0,
                              double mean = 0.0) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> normal(mean, deviation);
  Numbers numbers(static_cast<std::size_t>(count));
  for (double& number : numbers) number = round_to(normal(generator), type);
  return numbers;
}

// A test over (backend, compute dtype).
class OperationTest : public testing::TestWithParam<std::tuple<BackendCase, DType>> {
 protected:
  void SetUp() override { backend_ = std::get<0>(GetParam()).make(); }

  [[nodiscard]] Backend& backend() { return *backend_; }
  [[nodiscard]] static DType type() { return std::get<1>(GetParam()); }

  Tensor allocate(DType dtype, const Shape& shape) {
    Tensor tensor{nullptr, dtype, shape};
    buffers_.push_back(backend_->allocate(tensor.bytes()));
    tensor.data = buffers_.back().data();
    return tensor;
  }
  Tensor upload(const Numbers& numbers, DType dtype, const Shape& shape) {
    const Tensor tensor = allocate(dtype, shape);
    std::vector<std::byte> host(tensor.bytes());
    EXPECT_EQ(static_cast<std::size_t>(tensor.elements()), numbers.size());
    convert_elements(numbers.data(), DType::kFloat64, host.data(), dtype, numbers.size());
    backend_->copy_from_host(host, tensor);
    return tensor;
  }
  template <class T>
  Tensor upload_integers(const std::vector<T>& numbers, DType dtype) {
    const Tensor tensor = allocate(dtype, Shape{static_cast<std::int64_t>(numbers.size())});
    backend_->copy_from_host(std::as_bytes(std::span(numbers)), tensor);
    return tensor;
  }
  // Garbage that shows where an operation forgot to write.
  Tensor unset(DType dtype, const Shape& shape) {
    return upload(Numbers(static_cast<std::size_t>(shape.elements()), 12345.0), dtype, shape);
  }
  Numbers download(const Tensor& tensor) {
    std::vector<std::byte> host(tensor.bytes());
    backend_->copy_to_host(tensor, host);
    Numbers numbers(static_cast<std::size_t>(tensor.elements()));
    convert_elements(host.data(), tensor.dtype, numbers.data(), DType::kFloat64, numbers.size());
    return numbers;
  }
  std::vector<std::byte> download_bytes(const Tensor& tensor) {
    std::vector<std::byte> host(tensor.bytes());
    backend_->copy_to_host(tensor, host);
    return host;
  }

  // By norm: 4e-6 for fp32 results, and for bf16 ones the rounding of a few steps.
  static void expect_close(const Numbers& got, const Numbers& want, DType dtype, const std::string& what,
                           double fp32_tolerance = 4e-6, double bf16_tolerance = 1e-2) {
    ASSERT_EQ(got.size(), want.size()) << what;
    const double tolerance = dtype == DType::kBFloat16 ? bf16_tolerance : fp32_tolerance;
    double error = 0.0, norm = 0.0, largest = 0.0, worst = 0.0;
    std::size_t where = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_FALSE(std::isnan(got[i])) << what << ": NaN at " << i;
      const double difference = std::abs(got[i] - want[i]);
      error += difference * difference;
      norm += want[i] * want[i];
      largest = std::max(largest, std::abs(want[i]));
      if (difference > worst) {
        worst = difference;
        where = i;
      }
    }
    EXPECT_LE(std::sqrt(error), tolerance * std::sqrt(norm) + 1e-30)
        << what << " by norm; worst at " << where << ": " << got[where] << " for " << want[where];
    EXPECT_LE(worst, 8.0 * tolerance * largest + 1e-30)
        << what << " at " << where << ": " << got[where] << " for " << want[where];
  }

 private:
  std::unique_ptr<Backend> backend_;
  std::vector<Buffer> buffers_;
};

inline std::string case_name(const testing::TestParamInfo<std::tuple<BackendCase, DType>>& info) {
  return std::get<0>(info.param).name + "_" + std::string(dtype_name(std::get<1>(info.param)));
}

// Rows of the dropout definition in backend.hpp.
inline double dropout_factor(const Dropout& dropout, std::int64_t sample, std::int32_t position, std::int64_t feature,
                             std::uint64_t key) {
  if (dropout.probability == 0.0F) return 1.0;
  const auto bits = static_cast<std::uint64_t>(sample);
  const PhiloxBlock block =
      philox4x32(static_cast<std::uint32_t>(bits), static_cast<std::uint32_t>(bits >> 32),
                 static_cast<std::uint32_t>(position), static_cast<std::uint32_t>(feature / 4), key);
  return uniform_open(block.x[feature % 4]) >= dropout.probability
             ? 1.0 / (1.0 - static_cast<double>(dropout.probability))
             : 0.0;
}

}  // namespace railyard::test

#define RAILYARD_OPERATION_TESTS(suite)                                                                              \
  INSTANTIATE_TEST_SUITE_P(Backends, suite,                                                                          \
                           testing::Combine(testing::ValuesIn(railyard::test::backends()),                           \
                                            testing::Values(railyard::DType::kFloat32, railyard::DType::kBFloat16)), \
                           railyard::test::case_name)
