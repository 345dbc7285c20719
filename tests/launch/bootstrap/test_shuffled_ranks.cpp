// Ranks that a real mpirun started in a shuffled order, some with GPUs hidden: coordinates land where placement says.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/process.hpp"

namespace railyard::launch {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::string kProbe = std::string(RAILYARD_BINARY_DIR) + "/place_probe";

struct Started {
  std::string node;
  int local = 0;
  std::string more;  // NAME=VALUE
};

// One application context of mpirun for each rank, in the given order.
CommandResult run_shuffled(const std::vector<Started>& ranks, const std::vector<std::string>& sets) {
  Environment environment = current_environment();
  environment["OMPI_ALLOW_RUN_AS_ROOT"] = environment["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1";
  environment["OMPI_MCA_plm"] = "isolated";
  std::vector<std::string> command{"mpirun", "--oversubscribe", "--bind-to", "none"};
  for (const Started& rank : ranks) {
    if (command.size() > 4) command.emplace_back(":");
    command.insert(command.end(),
                   {"-n", "1", "-x", "PROBE_NODE=" + rank.node, "-x", fmt::format("PROBE_LOCAL={}", rank.local)});
    if (!rank.more.empty()) command.insert(command.end(), {"-x", rank.more});
    command.push_back(kProbe);
    command.insert(command.end(), sets.begin(), sets.end());
  }
  return run_command(command, 60, &environment);
}

#ifdef RAILYARD_HAS_PMIX
class ShuffledRanks : public testing::Test {
  void SetUp() override {
    if (!find_program("mpirun")) GTEST_SKIP() << "mpirun is not installed";
  }
};

TEST_F(ShuffledRanks, TensorParallelPairsStayOnTheirNode) {
  const auto result =
      run_shuffled({{"b", 0, ""}, {"a", 0, ""}, {"a", 1, ""}, {"b", 1, ""}}, {"parallel.tp=2", "parallel.dp=2"});
  ASSERT_EQ(result.status, 0) << result.errors;
  // Node b was met first; its ranks are started as 0 and 3.
  for (const char* line : {"started 0 logical 0 node b gpu 0", "started 3 logical 1 node b gpu 1",
                           "started 1 logical 2 node a gpu 0", "started 2 logical 3 node a gpu 1"})
    EXPECT_THAT(result.output, HasSubstr(line));
  EXPECT_THAT(result.errors, HasSubstr("tp: 100% nvlink"));
}

TEST_F(ShuffledRanks, HiddenDevicesKeepTheirPlace) {
  const auto result = run_shuffled(
      {{"a", 0, "PROBE_MASK=3"}, {"a", 1, "PROBE_MASK=1"}, {"a", 2, "PROBE_MASK=0"}, {"a", 3, "PROBE_MASK=2"}},
      {"parallel.tp=4"});
  ASSERT_EQ(result.status, 0) << result.errors;
  for (const char* line : {"started 0 logical 3 node a gpu 3 ordinal 3", "started 1 logical 1 node a gpu 1 ordinal 1",
                           "started 2 logical 0 node a gpu 0 ordinal 0", "started 3 logical 2 node a gpu 2 ordinal 2"})
    EXPECT_THAT(result.output, HasSubstr(line));
}

TEST_F(ShuffledRanks, ACgroupsLossIsOneLine) {
  const auto result = run_shuffled({{"a", 0, "PROBE_CGROUP=2"}, {"a", 1, "PROBE_CGROUP=0"}}, {"parallel.tp=2"});
  ASSERT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(result.output, AllOf(HasSubstr("started 0 logical 1 node a gpu 2 ordinal 0 visible GPU-a-2\n"),
                                   HasSubstr("started 1 logical 0 node a gpu 0 ordinal 0 visible GPU-a-0\n")));
  EXPECT_THAT(result.errors, HasSubstr("a device cgroup lets each rank open 1 of 4 GPUs"));
}

TEST_F(ShuffledRanks, OneLineSaysWhyTheyCannotLand) {
  const auto result = run_shuffled({{"a", 0, "PROBE_MASK=1"}, {"a", 1, "PROBE_MASK=1"}}, {"parallel.tp=2"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.errors, HasSubstr("railyard: a: 2 ranks on this node see 1 GPU(s) between them"));
  EXPECT_EQ(result.errors.find("railyard:"), result.errors.rfind("railyard:"));
}
#endif

}  // namespace
}  // namespace railyard::launch
