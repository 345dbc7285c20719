// Times matrix products.
#include "launch/health/speed.hpp"

#include <algorithm>
#include <chrono>
#include <ctime>

#include "runtime/base/error.hpp"
#include "runtime/comm/load.hpp"
#include "runtime/compute/backend.hpp"

namespace railyard::launch {
namespace {

struct Product {
  Buffer memory;
  Gemm gemm;
  double operations = 0.0;
};

// A square product of `size`, in memory of the backend.
Product make_product(Backend& backend, std::int64_t size, DType dtype) {
  Product product;
  const std::size_t bytes = static_cast<std::size_t>(size * size) * dtype_size(dtype);
  product.memory = backend.allocate(3 * bytes);
  std::byte* at = product.memory.data();
  const auto next = [&] {
    Tensor tensor{at, dtype, Shape{size, size}};
    at += bytes;
    return tensor;
  };
  product.gemm.a = next();
  product.gemm.b = next();
  product.gemm.d = next();
  backend.fill(product.gemm.a, 0.5F);
  backend.fill(product.gemm.b, 0.25F);
  product.operations = 2.0 * static_cast<double>(size) * static_cast<double>(size) * static_cast<double>(size);
  return product;
}

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double gpu_speed(int device) {
  constexpr std::int64_t kSize = 4096;
  constexpr int kTimes = 20;
  const auto backend = make_cuda_backend({.device = device});
  Product product = make_product(*backend, kSize, DType::kBFloat16);
  backend->gemm(product.gemm);  // chooses the kernel
  backend->synchronize();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kTimes; ++i) backend->gemm(product.gemm);
  backend->synchronize();
  return kTimes * product.operations / std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

double core_speed() {
  constexpr std::int64_t kSize = 384;  // a few milliseconds
  constexpr int kTimes = 8;
  const auto backend = make_cpu_backend({.threads = 1});
  Product product = make_product(*backend, kSize, DType::kFloat32);
  backend->gemm(product.gemm);
  double best = 1e30;
  for (int i = 0; i < kTimes; ++i) {
    const double start = cpu_seconds();
    backend->gemm(product.gemm);
    best = std::min(best, cpu_seconds() - start);
  }
  return best > 0.0 ? product.operations / best : 0.0;
}

Json gpu_speeds(int count) {
  Json speeds = Json::array();
  for (int device = 0; device < count; ++device) {
    try {
      speeds.push_back(static_cast<double>(static_cast<long>(gpu_speed(device) * 1e-11)) / 10.0);
    } catch (const Error&) {
      speeds.push_back(nullptr);
    }
  }
  return speeds;
}

}  // namespace railyard::launch
