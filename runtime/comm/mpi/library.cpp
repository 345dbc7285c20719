// What librailyard_mpi.so exports.
#include "runtime/comm/mpi/mpi_communicator.hpp"
#include "runtime/comm/shared_object.hpp"

namespace {

std::unique_ptr<railyard::Communicator> make_communicator(railyard::Backend& backend,
                                                          const railyard::CommunicatorOptions& options) {
  return std::make_unique<railyard::mpi::MpiCommunicator>(backend, options);
}

}  // namespace

extern "C" const railyard::MpiLibrary* railyard_mpi_library() {
  static const railyard::MpiLibrary library{railyard::kSharedObjectInterface, railyard::mpi::initialize,
                                            make_communicator, railyard::mpi::finalize};
  return &library;
}
