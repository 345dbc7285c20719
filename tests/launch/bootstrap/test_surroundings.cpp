// Who started us: environments as the starters set them, one each.
#include <gtest/gtest.h>

#include "launch/bootstrap/surroundings.hpp"
#include "runtime/base/error.hpp"

namespace railyard::launch {
namespace {

TEST(Surroundings, ANakedShellIsAPlaceToLaunchFrom) {
  const auto around = look_around({{"PATH", "/bin"}});
  EXPECT_TRUE(around.may_launch());
  EXPECT_FALSE(around.in_allocation);
  EXPECT_EQ(around.meeting, Meeting::kNone);
}

TEST(Surroundings, ABatchScriptLaunchesInItsAllocation) {
  const auto around = look_around({{"SLURM_JOB_ID", "7"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}});
  EXPECT_TRUE(around.may_launch());
  EXPECT_TRUE(around.in_allocation);
  EXPECT_FALSE(around.in_step);
  // Newer Slurm numbers the batch step.
  const auto newer = look_around(
      {{"SLURM_JOB_ID", "7"}, {"SLURM_PROCID", "0"}, {"SLURM_STEP_ID", "4294967291"}, {"SLURM_STEP_NUM_TASKS", "8"}});
  EXPECT_TRUE(newer.may_launch());
}

TEST(Surroundings, AnInteractiveStepOfOneTaskLaunches) {
  const auto around = look_around({{"SLURM_JOB_ID", "7"},
                                   {"SLURM_PROCID", "0"},
                                   {"SLURM_STEP_ID", "0"},
                                   {"SLURM_STEP_NUM_TASKS", "1"},
                                   {"PMIX_NAMESPACE", "slurm.pmix.7.0"},
                                   {"PMIX_RANK", "0"}});
  EXPECT_TRUE(around.may_launch());
  EXPECT_TRUE(around.in_step);
}

TEST(Surroundings, ATaskOfAStepIsARank) {
  Environment environment{
      {"SLURM_JOB_ID", "7"}, {"SLURM_PROCID", "3"}, {"SLURM_STEP_ID", "1"}, {"SLURM_STEP_NUM_TASKS", "8"}};
  auto around = look_around(environment);
  EXPECT_EQ(around.meeting, Meeting::kSlurmTcp);
  EXPECT_EQ(around.rank, 3);
  EXPECT_EQ(around.size, 8);
  EXPECT_NE(around.note, "");
  environment["PMIX_NAMESPACE"] = "slurm.pmix.7.1";
  around = look_around(environment);
  EXPECT_EQ(around.meeting, Meeting::kPmix);
  EXPECT_FALSE(around.may_launch());
}

TEST(Surroundings, MpirunInABatchJobHidesTheDaemonsVariables) {
  const auto around = look_around({{"SLURM_JOB_ID", "7"},
                                   {"SLURM_PROCID", "0"},
                                   {"SLURM_STEP_ID", "2"},
                                   {"SLURM_STEP_NUM_TASKS", "4"},
                                   {"OMPI_COMM_WORLD_SIZE", "6"},
                                   {"OMPI_COMM_WORLD_RANK", "5"},
                                   {"PMIX_NAMESPACE", "123"}});
  EXPECT_TRUE(around.under_mpirun);
  EXPECT_EQ(around.size, 6);
  EXPECT_EQ(around.rank, 5);
  EXPECT_EQ(around.meeting, Meeting::kPmix);
}

TEST(Surroundings, HydraServesMpiOnly) {
  EXPECT_EQ(look_around({{"PMI_SIZE", "2"}, {"PMI_RANK", "1"}}).meeting, Meeting::kMpi);
}

TEST(Surroundings, SeesHeterogeneousJobs) {
  EXPECT_TRUE(look_around({{"SLURM_JOB_ID", "7"}, {"SLURM_HET_SIZE", "2"}}).heterogeneous);
}

TEST(Surroundings, RefusesContradictions) {
  EXPECT_THROW((void)look_around({{"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_RANK", "2"}}), UsageError);
  EXPECT_THROW((void)look_around({{"PMI_SIZE", "many"}}), UsageError);
}

}  // namespace
}  // namespace railyard::launch
