// Text of CUDA's errors.
#include "runtime/compute/cuda/device.hpp"

#include "runtime/base/error.hpp"

namespace railyard::cuda {

void fail(cudaError_t status, const char* what) {
  throw RunError("CUDA: {}: {} ({})", what, cudaGetErrorString(status), cudaGetErrorName(status));
}

}  // namespace railyard::cuda
