// Starts MPI around the tests. Only rank 0 prints what passes.
#include <gtest/gtest.h>

#include "runtime/comm/mpi/mpi_communicator.hpp"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const railyard::MpiWorld world = railyard::mpi::initialize();
  if (world.rank != 0) GTEST_FLAG_SET(brief, true);
  const int result = RUN_ALL_TESTS();
  // A failed rank may have left operations that the others wait for.
  if (result != 0) MPI_Abort(MPI_COMM_WORLD, result);
  railyard::mpi::finalize();
  return result;
}
