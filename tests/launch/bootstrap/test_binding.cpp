// Dividing CPUs among the ranks of a host, and binding to them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>

#include "launch/bootstrap/binding.hpp"

namespace railyard::launch {
namespace {

std::vector<Core> machine(int count) {
  std::vector<Core> cores;
  for (int i = 0; i < count; ++i) cores.push_back({{i, i + count}, i * 2 / count});
  return cores;
}

TEST(Sharing, IsEvenAndDisjoint) {
  const auto cores = machine(10);
  std::set<int> seen;
  for (int rank = 0; rank < 4; ++rank) {
    const auto share = share_of(cores, rank, 4);
    EXPECT_GE(share.size(), 2U);
    EXPECT_LE(share.size(), 3U);
    for (const Core& core : share)
      for (const int cpu : core.cpus) EXPECT_TRUE(seen.insert(cpu).second);
  }
  EXPECT_EQ(seen.size(), 20U);
}

TEST(Sharing, GivesNobodyACoreWhenThereAreTooFew) { EXPECT_TRUE(share_of(machine(2), 1, 3).empty()); }

TEST(Sharing, PrefersCoresNearTheDevice) {
  // GPUs are numbered against the NUMA nodes: ranks 0 and 1 belong to the second half.
  const std::vector<int> low{0, 1, 2, 3}, high{4, 5, 6, 7};
  const std::vector<std::vector<int>> near{high, high, low, low};
  EXPECT_EQ(cpu_list(share_near(machine(8), 0, near)), "4-5,12-13");
  EXPECT_EQ(cpu_list(share_near(machine(8), 1, near)), "6-7,14-15");
  EXPECT_EQ(cpu_list(share_near(machine(8), 3, near)), "2-3,10-11");
}

TEST(Sharing, FallsBackWhenACgroupCutTheNearCores) {
  // Only the first half is allowed, but two ranks' devices are near the other half.
  const std::vector<std::vector<int>> near{{0, 1}, {0, 1}, {4, 5}, {4, 5}};
  std::set<std::string> shares;
  for (int rank = 0; rank < 4; ++rank) shares.insert(cpu_list(share_near(machine(4), rank, near)));
  EXPECT_THAT(shares, testing::ElementsAre("0,4", "1,5", "2,6", "3,7"));
}

TEST(Sharing, FallsBackWhenSomeDevicesTellNothing) {
  const std::vector<std::vector<int>> near{{0, 1}, {}};
  EXPECT_EQ(cpu_list(share_near(machine(4), 0, near)), "0-1,4-5");
  EXPECT_EQ(cpu_list(share_near(machine(4), 1, near)), "2-3,6-7");
}

TEST(Binding, HoldsForThisProcess) {
  const auto cores = allowed_cores();
  ASSERT_FALSE(cores.empty());
  const pid_t child = fork();
  if (child == 0) {
    if (bind_to({cores.back()})) _exit(2);
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) _exit(3);
    const bool right =
        CPU_COUNT(&set) == static_cast<int>(cores.back().cpus.size()) && CPU_ISSET(cores.back().cpus[0], &set);
    _exit(right && cpu_list(allowed_cores()) == cpu_list({cores.back()}) ? 0 : 4);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace railyard::launch
