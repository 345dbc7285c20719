// Allocations as Slurm's variables tell them, and the step that fits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/slurm/allocation.hpp"
#include "runtime/base/error.hpp"

namespace railyard::launch {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Environment batch_job() {
  return {{"SLURM_JOB_ID", "12"}, {"SLURM_JOB_NODELIST", "node[1-2],other"}, {"SLURM_JOB_CPUS_PER_NODE", "8(x2),4"}};
}

std::string refusal(const Environment& environment, int ranks) {
  try {
    (void)shape_step(read_allocation(environment), ranks, 1);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(SlurmAllocation, ReadsNodesAndCpus) {
  const auto allocation = read_allocation(batch_job());
  EXPECT_THAT(allocation.nodes, ElementsAre("node1", "node2", "other"));
  EXPECT_THAT(allocation.cpus, ElementsAre(8, 8, 4));
  EXPECT_FALSE(allocation.array_task);
}

TEST(SlurmAllocation, RefusesMalformedCounts) {
  for (const char* text : {"8(x", "8(xx2)", "a", "8(x99999999)", "-1", "8,,4"}) {
    Environment environment = batch_job();
    environment["SLURM_JOB_CPUS_PER_NODE"] = text;
    EXPECT_THROW((void)read_allocation(environment), UsageError) << text;
  }
}

TEST(Shape, FollowsWhatWasAskedFor) {
  Environment environment = batch_job();
  EXPECT_EQ(shape_step(read_allocation(environment), 0, 6).ranks, 6);
  environment["SLURM_NTASKS_PER_NODE"] = "2";
  EXPECT_EQ(shape_step(read_allocation(environment), 0, 1).ranks, 6);
  EXPECT_EQ(shape_step(read_allocation(environment), 0, 1).cpus_per_rank, 2);
  EXPECT_EQ(shape_step(read_allocation(environment), 3, 1).ranks, 3);
}

TEST(Shape, RefusesWhatDoesNotFit) {
  EXPECT_THAT(refusal(batch_job(), 4), HasSubstr("do not divide over the 3 nodes"));
  EXPECT_THAT(refusal(batch_job(), 15), HasSubstr("4 CPUs on other for 5 ranks"));
  Environment environment = batch_job();
  environment["SLURM_GPUS_ON_NODE"] = "1";
  EXPECT_THAT(refusal(environment, 6), HasSubstr("1 GPUs on each"));
}

TEST(SlurmAllocation, SparesStandBy) {
  Environment environment = batch_job();
  environment["SLURM_NTASKS"] = "6";
  const auto allocation = without_spares(read_allocation(environment), 1);
  EXPECT_THAT(allocation.nodes, ElementsAre("node1", "node2"));
  EXPECT_EQ(shape_step(allocation, 0, 1).ranks, 4);
  EXPECT_EQ(without_spares(read_allocation(environment), 0).nodes.size(), 3U);
  EXPECT_THROW((void)without_spares(read_allocation(environment), 3), UsageError);
}

}  // namespace
}  // namespace railyard::launch
