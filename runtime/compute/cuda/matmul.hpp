// Matrix products by cuBLASLt. Which of its algorithms computes a shape is measured when the shape first occurs, kept,
// and can be carried from run to run, so that all ranks and a resumed run compute the same bits.
#pragma once

#include <cublasLt.h>

#include <memory>
#include <string>

#include "runtime/compute/backend.hpp"
#include "runtime/compute/cuda/device.hpp"
#include "runtime/compute/cuda/kernels/kernels.hpp"

namespace railyard::cuda {

class Matmul {
 public:
  // deterministic: nothing is measured, the library's first proposal is taken.
  explicit Matmul(bool deterministic);
  ~Matmul();
  Matmul(const Matmul&) = delete;
  Matmul& operator=(const Matmul&) = delete;

  // Shapes as in Gemm; UsageError for operands that the device cannot multiply. `lane` picks a workspace: products that
  // run at the same time on two streams need two.
  void run(const Gemm& gemm, const Target& target, int lane = 0);

  static constexpr int kLanes = 2;

  // The choices as JSON, and back; choices of another library version or device are ignored.
  [[nodiscard]] std::string algorithms() const;
  void set_algorithms(const std::string& json);

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace railyard::cuda
