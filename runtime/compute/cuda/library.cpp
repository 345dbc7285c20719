// What librailyard_cuda.so exports.
#include "runtime/comm/nccl/nccl.hpp"
#include "runtime/comm/shared_object.hpp"
#include "runtime/compute/cuda/cuda_backend.hpp"

namespace {

std::unique_ptr<railyard::Backend> make_backend(const railyard::CudaOptions& options) {
  return std::make_unique<railyard::cuda::CudaBackend>(options);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const railyard::CudaLibrary* railyard_cuda_library() {
  static constexpr railyard::CudaLibrary library{railyard::kSharedObjectInterface, make_backend,
                                                 railyard::nccl::make_communicator};
  return &library;
}
