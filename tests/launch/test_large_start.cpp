// A start on 1,250 nodes of 8 GPUs, simulated: job, placement and the table of 10,000 ranks in less than two seconds.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <set>

#include "launch/process.hpp"
#include "runtime/base/json.hpp"

namespace railyard::launch {
namespace {

// CPU time of ended child processes, which a busy machine does not change.
double cpu_seconds_of_children() {
  rusage usage{};
  getrusage(RUSAGE_CHILDREN, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

TEST(LargeStart, TenThousandRanksInTwoSeconds) {
  const double before = cpu_seconds_of_children();
  const auto result =
      run_command({RAILYARD_BINARY_DIR "/railyard", "plan", RAILYARD_SOURCE_DIR "/tests/launch/large.lua", "--site",
                   RAILYARD_SOURCE_DIR "/site/dgx_h100.lua", "--nodes", "1250", "--map", "--json"},
                  60);
  const double spent = cpu_seconds_of_children() - before;
  ASSERT_EQ(result.status, 0) << result.errors;
  std::printf("10,000 ranks planned, placed and listed in %.2f s of CPU time\n", spent);
  EXPECT_LT(spent, 2.0);
  const Json plan = parse_json(result.output, "railyard plan");
  EXPECT_EQ(plan.at("gpus"), 10000);
  std::set<std::pair<std::string, int>> places;
  std::set<int> ranks;
  for (const Json& rank : plan.at("map")) {
    places.emplace(rank.at("node").get<std::string>(), rank.at("gpu").get<int>());
    ranks.insert(rank.at("rank").get<int>());
  }
  EXPECT_EQ(places.size(), 10000U);
  EXPECT_EQ(ranks.size(), 10000U);
}

}  // namespace
}  // namespace railyard::launch
