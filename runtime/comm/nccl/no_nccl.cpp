// Stands in for the NCCL communicator where nccl.h was not there at build time.
#include "runtime/base/error.hpp"
#include "runtime/comm/nccl/nccl.hpp"

namespace railyard::nccl {

std::unique_ptr<Communicator> make_communicator(Backend&, Communicator&, const CommunicatorOptions&) {
  throw RunError("this build has no NCCL: build where nccl.h is (libnccl-dev), or run with communicator = \"mpi\"");
}

}  // namespace railyard::nccl
