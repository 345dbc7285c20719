// Parts that need a library of their own (MPI, CUDA with NCCL) are shared objects beside the program, loaded when a job
// uses them, so that the program runs where those libraries are missing. What such an object exports is in
// shared_object.hpp.
#pragma once

#include <memory>
#include <string>

#include "runtime/base/activity.hpp"
#include "runtime/comm/group.hpp"
#include "runtime/compute/backend.hpp"

namespace railyard {

// A rank's place in MPI's world, before any communicator exists.
struct MpiWorld {
  int rank = 0, size = 1;
};

struct CommunicatorOptions {
  double timeout = 600.0;  // seconds a rank waits in one operation before it names the missing ranks
  // world rank -> logical rank of the placement (empty: the same); all ranks pass the same list.
  std::vector<int> logical_ranks;
  ActivityBoard* activity = nullptr;  // told what is waited for; null: nobody. Must outlive the communicator
};

// Initialises MPI (librailyard_mpi.so) on the first call. RunError with the reason when the library cannot be loaded.
MpiWorld initialize_mpi();
// A world over MPI for tensors of `backend`; device memory is staged through Backend::allocate_staging. `backend` must
// outlive it.
std::unique_ptr<Communicator> make_mpi_communicator(Backend& backend, const CommunicatorOptions& options);
// Ends MPI; after it no communicator of it may be used. Called once, at the end of a run that went well.
void finalize_mpi();

struct CudaOptions {
  int device = 0;              // ordinal among the visible devices
  bool deterministic = false;  // bit-identical reruns, at some cost
};
// librailyard_cuda.so. RunError says what is missing: the part was not built, no driver, no device.
std::unique_ptr<Backend> make_cuda_backend(const CudaOptions& options);
// NCCL between the devices of `host`'s ranks; `host` carries the unique id and host-side calls. Both must outlive it.
std::unique_ptr<Communicator> make_nccl_communicator(Backend& backend, Communicator& host,
                                                     const CommunicatorOptions& options);

}  // namespace railyard
