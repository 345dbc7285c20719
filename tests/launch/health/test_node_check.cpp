// Node reports: their way through JSON, odd nodes, control groups' counters, and this machine's own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>

#include "launch/health/node_check.hpp"
#include "launch/health/nvml.hpp"
#include "launch/health/oom.hpp"
#include "runtime/base/error.hpp"
#include "tests/launch/temporary_folder.hpp"

namespace railyard::launch {
namespace {

using testing::HasSubstr;

std::vector<NodeReport> nodes(const std::vector<Json>& facts) {
  std::vector<NodeReport> reports;
  for (const Json& each : facts) {
    reports.push_back({});
    reports.back().node = "node" + std::to_string(reports.size());
    reports.back().facts = each;
  }
  compare_nodes(reports);
  return reports;
}

TEST(NodeCheck, NamesTheOddNode) {
  const auto reports = nodes({{{"gpus", 8}, {"gflops_per_core", 50.0}},
                              {{"gpus", 8}, {"gflops_per_core", 49.0}},
                              {{"gpus", 7}, {"gflops_per_core", 30.0}},
                              {{"gpus", 8}, {"gflops_per_core", 51.0}}});
  EXPECT_TRUE(reports[0].findings.empty());
  EXPECT_TRUE(reports[1].findings.empty());
  EXPECT_TRUE(reports[3].findings.empty());
  ASSERT_EQ(reports[2].findings.size(), 2U);
  EXPECT_EQ(reports[2].findings[0].text, "GPUs: 7, most nodes have 8");
  EXPECT_THAT(reports[2].findings[1].text, HasSubstr("30.0, the median of all nodes is 50.0"));
}

TEST(NodeCheck, HalvesHaveNoOddOne) {
  for (const NodeReport& report : nodes({{{"gpus", 8}}, {{"gpus", 4}}})) EXPECT_TRUE(report.findings.empty());
}

TEST(NodeCheck, UnknownIsAValueOfItsOwn) {
  const auto reports = nodes({{{"gpus", 8}}, {{"gpus", nullptr}}, {{"gpus", 8}}});
  ASSERT_EQ(reports[1].findings.size(), 1U);
  EXPECT_EQ(reports[1].findings[0].text, "GPUs: none known, most nodes have 8");
}

TEST(NodeCheck, SurvivesJson) {
  NodeReport report;
  report.node = "node1";
  report.facts = {{"cpus", 4}};
  report.findings.push_back({"gpu_ecc", "gpu0 has had 3 uncorrectable memory errors", true});
  RankSight sight;
  sight.activity.owner = {.rank = 3, .gpu = 1, .host = "node1"};
  sight.activity.waiting = "all_reduce of group dp 0";
  sight.activity.kind = PhaseKind::kCompute;
  sight.state = 'T';
  report.ranks.push_back(sight);
  const NodeReport back = NodeReport::from_json(report.to_json());
  EXPECT_EQ(back.to_json(), report.to_json());
  EXPECT_EQ(back.ranks[0].line(), sight.line());
  EXPECT_THROW((void)NodeReport::from_json(Json{{"node", 4}}), UsageError);
  EXPECT_THROW((void)NodeReport::from_json(Json::array()), UsageError);
}

TEST(NodeCheck, ThisMachine) {
  const TemporaryFolder folder;
  const auto start = std::chrono::steady_clock::now();
  const NodeReport report = check_this_node({.run_dir = folder.path() / "not/yet/there"});
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  EXPECT_GT(report.facts.at("cpus").get<int>(), 0);
  EXPECT_GT(report.facts.at("memory_gib").get<double>(), 0.1);
  EXPECT_GT(report.facts.at("gflops_per_core").get<double>(), 0.1);
  EXPECT_TRUE(report.facts.at("run_free_gib").is_number());
  EXPECT_EQ(report.facts.at("gpus").is_null(), !read_gpu_health());
}

TEST(NodeCheck, MissesGpusThatRanksNeed) {
  const NodeReport report = check_this_node({.gpus_needed = 1000, .speed = false});
  ASSERT_FALSE(report.findings.empty());
  EXPECT_EQ(report.findings.back().word, "gpus_missing");
  EXPECT_TRUE(report.findings.back().fatal);
}

TEST(OomKills, ReadsVersionTwo) {
  const TemporaryFolder folder;
  const auto group = folder.path() / "sys/fs/cgroup/system.slice/slurmstepd.scope/job_7";
  std::filesystem::create_directories(group / "step_0/user");
  std::filesystem::create_directories(folder.path() / "proc/self");
  std::ofstream(folder.path() / "proc/self/cgroup") << "0::/system.slice/slurmstepd.scope/job_7/step_0/user\n";
  std::ofstream(group / "memory.events") << "low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\n";
  EXPECT_EQ(oom_kills(folder.path()), 2);
}

TEST(OomKills, AddsUpVersionOne) {
  const TemporaryFolder folder;
  const auto group = folder.path() / "sys/fs/cgroup/memory/slurm/uid_0/job_7";
  std::filesystem::create_directories(group / "step_0");
  std::filesystem::create_directories(folder.path() / "proc/self");
  std::ofstream(folder.path() / "proc/self/cgroup") << "5:cpuset:/\n4:memory:/slurm/uid_0/job_7/step_0\n";
  for (const auto& each : {group, group / "step_0"})
    std::ofstream(each / "memory.oom_control") << "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n";
  EXPECT_EQ(oom_kills(folder.path()), 2);
}

TEST(OomKills, UnknownWithoutGroups) {
  const TemporaryFolder folder;
  EXPECT_FALSE(oom_kills(folder.path()));
}

}  // namespace
}  // namespace railyard::launch
