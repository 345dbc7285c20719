// What the shared objects beside the program export: one C symbol each, which returns a table of functions. They are
// looked for in the program's folder, then in ../lib/railyard beside it.
//
//   librailyard_mpi.so   extern "C" const railyard::MpiLibrary* railyard_mpi_library();
//   librailyard_cuda.so  extern "C" const railyard::CudaLibrary* railyard_cuda_library();
//
// The functions behave as those of the same name in load.hpp, exceptions included. Program and objects are built
// together: `interface` is compared first, so that an object left over from another build is refused.
#pragma once

#include <memory>

#include "runtime/comm/load.hpp"

namespace railyard {

// Raised with every change of the tables below or of the interfaces they hand out.
inline constexpr int kSharedObjectInterface = 2;

struct MpiLibrary {
  int interface = kSharedObjectInterface;
  MpiWorld (*initialize)();
  std::unique_ptr<Communicator> (*make_communicator)(Backend& backend, const CommunicatorOptions& options);
  void (*finalize)();
};

struct CudaLibrary {
  int interface = kSharedObjectInterface;
  std::unique_ptr<Backend> (*make_backend)(const CudaOptions& options);
  std::unique_ptr<Communicator> (*make_nccl_communicator)(Backend& backend, Communicator& host,
                                                          const CommunicatorOptions& options);
};

}  // namespace railyard
