// Matrix products by oneDNN's matmul primitive, one primitive per shape, kept.
#pragma once

#include <cstddef>
#include <memory>

#include "runtime/compute/backend.hpp"
#include "runtime/compute/cpu/kernels/kernels.hpp"

namespace railyard::cpu {

class Matmul {
 public:
  // Products run on `threads` OpenMP threads; `kernels` converts where oneDNN has no bf16 for this processor.
  Matmul(int threads, const Kernels& kernels);
  ~Matmul();
  // As Backend::gemm, for fp32 and bf16.
  void run(const Gemm& arguments);

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace railyard::cpu
