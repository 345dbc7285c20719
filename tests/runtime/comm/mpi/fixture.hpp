// What the MPI tests share: a communicator over all ranks, tensors in host memory or behind a backend that hides it.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <vector>

#include "runtime/comm/mpi/mpi_communicator.hpp"
#include "runtime/compute/cpu/cpu_backend.hpp"

namespace railyard::test {

// The CPU, passed off as a device: communication must go through staging buffers.
class DeviceLikeBackend : public cpu::CpuBackend {
 public:
  using cpu::CpuBackend::CpuBackend;
  [[nodiscard]] bool is_host_memory() const override { return false; }
};

struct CommunicatorCase {
  const char* name;
  bool device;
  std::int64_t limit;  // largest count of one MPI call, to try what messages beyond 2^31 do
};

class MpiTest : public testing::TestWithParam<CommunicatorCase> {
 protected:
  void SetUp() override {
    if (GetParam().device) {
      backend_ = std::make_unique<DeviceLikeBackend>(CpuOptions{.threads = 1});
    } else {
      backend_ = make_cpu_backend({.threads = 1});
    }
    CommunicatorOptions options;
    options.timeout = 30.0;
    world_ = std::make_unique<mpi::MpiCommunicator>(*backend_, options, GetParam().limit);
    std::vector<int> all(static_cast<std::size_t>(world_->size()));
    std::iota(all.begin(), all.end(), 0);
    group_ = world_->make_group(all, "all");
  }
  // Groups before their world, the world before its backend.
  void TearDown() override {
    group_.reset();
    world_.reset();
  }

  template <class T>
  Tensor tensor(const std::vector<T>& numbers, DType type) {
    Tensor result{nullptr, type, Shape{static_cast<std::int64_t>(numbers.size())}};
    buffers_.push_back(backend_->allocate(result.bytes()));
    result.data = buffers_.back().data();
    std::vector<std::byte> host(result.bytes());
    if constexpr (std::is_same_v<T, double>) {
      convert_elements(numbers.data(), DType::kFloat64, host.data(), type, numbers.size());
    } else {
      std::memcpy(host.data(), numbers.data(), host.size());
    }
    backend_->copy_from_host(host, result);
    return result;
  }
  std::vector<double> numbers(const Tensor& tensor) {
    std::vector<std::byte> host(tensor.bytes());
    backend_->copy_to_host(tensor, host);
    std::vector<double> result(static_cast<std::size_t>(tensor.elements()));
    convert_elements(host.data(), tensor.dtype, result.data(), DType::kFloat64, result.size());
    return result;
  }

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Communicator> world_;
  std::unique_ptr<Group> group_;

 private:
  std::vector<Buffer> buffers_;
};

}  // namespace railyard::test
