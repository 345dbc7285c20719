// Which mpirun is which, and how each is called.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/local/mpirun.hpp"

namespace railyard::launch {
namespace {

using testing::Contains;
using testing::Not;
using testing::Pair;

TEST(Mpirun, IsKnownByItsVersion) {
  EXPECT_EQ(recognise_mpirun("mpirun (Open MPI) 4.1.4\n"), MpirunKind::kOpenMpi4);
  EXPECT_EQ(recognise_mpirun("mpirun (Open MPI) 5.0.3\n"), MpirunKind::kOpenMpi5);
  EXPECT_EQ(recognise_mpirun("HYDRA build details:\n    Version: 4.0.2\n"), MpirunKind::kHydra);
  EXPECT_FALSE(recognise_mpirun("mpirun (Open MPI) 1.10.7"));
  EXPECT_FALSE(recognise_mpirun("Intel(R) MPI Library for Linux"));
}

TEST(Mpirun, YieldsOnlyWhenCrowded) {
  const Mpirun mpirun{"/usr/bin/mpirun", MpirunKind::kOpenMpi4, ""};
  const MpirunOptions crowded{.ranks = 4, .cores = 2, .program = {"p"}},
      roomy{.ranks = 2, .cores = 2, .program = {"p"}};
  EXPECT_THAT(mpirun_command(mpirun, crowded, {}).environment, Contains(Pair("OMPI_MCA_mpi_yield_when_idle", "1")));
  EXPECT_THAT(mpirun_command(mpirun, roomy, {}).environment, Not(Contains(Pair("OMPI_MCA_mpi_yield_when_idle", "1"))));
  EXPECT_THAT(mpirun_command(mpirun, crowded, {{"OMPI_MCA_mpi_yield_when_idle", "0"}}).environment,
              Contains(Pair("OMPI_MCA_mpi_yield_when_idle", "0")));
  EXPECT_EQ(mpirun_command(mpirun, crowded, {}).words.back(), "p");
}

}  // namespace
}  // namespace railyard::launch
