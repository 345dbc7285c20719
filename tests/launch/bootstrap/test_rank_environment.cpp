// Variables for NCCL, UCX and OpenMP: the rules of names, fabrics and precedence.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/bootstrap/rank_environment.hpp"

namespace railyard::launch {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::Pair;

EnvironmentSources infiniband() {
  EnvironmentSources sources;
  sources.network = {.fabric = "ib", .rail_nics = {"mlx5_0", "mlx5_3"}, .nic = "mlx5_3"};
  sources.threads = 4;
  return sources;
}

TEST(RankEnvironment, ListsAllRailsForNcclAndTheNearestForUcx) {
  std::vector<std::string> notes;
  const auto result = rank_environment(infiniband(), notes);
  EXPECT_THAT(result, Contains(Pair("NCCL_IB_HCA", "=mlx5_0:1,mlx5_3:1")));
  EXPECT_THAT(result, Contains(Pair("UCX_NET_DEVICES", "mlx5_3:1")));
  EXPECT_THAT(result, Contains(Pair("OMP_NUM_THREADS", "4")));
  EXPECT_THAT(notes, IsEmpty());
}

TEST(RankEnvironment, LeavesEfaAndSlingshotToTheirPlugins) {
  for (const char* fabric : {"efa", "slingshot", "tcp"}) {
    auto sources = infiniband();
    sources.network.fabric = fabric;
    std::vector<std::string> notes;
    const auto result = rank_environment(sources, notes);
    EXPECT_THAT(result, Not(Contains(Pair("NCCL_IB_HCA", testing::_)))) << fabric;
    EXPECT_THAT(result, Not(Contains(Pair("UCX_NET_DEVICES", testing::_)))) << fabric;
  }
}

TEST(RankEnvironment, LetsTheUserWinOverUsAndTheJobOverAll) {
  auto sources = infiniband();
  sources.inherited = {{"NCCL_IB_HCA", "mlx5_9"}, {"OMP_NUM_THREADS", "1"}, {"NCCL_DEBUG", "WARN"}};
  sources.site = {{"NCCL_DEBUG", "INFO"}, {"SITE", "1"}};
  sources.site_hook = {{"UCX_NET_DEVICES", "mlx5_7:2"}};
  sources.job = {{"NCCL_DEBUG", "TRACE"}};
  std::vector<std::string> notes;
  const auto result = rank_environment(sources, notes);
  EXPECT_THAT(result, Not(Contains(Pair("NCCL_IB_HCA", testing::_))));
  EXPECT_THAT(result, Contains(Pair("OMP_NUM_THREADS", "4")));
  EXPECT_THAT(result, Contains(Pair("UCX_NET_DEVICES", "mlx5_7:2")));
  EXPECT_THAT(result, Contains(Pair("NCCL_DEBUG", "TRACE")));
  EXPECT_THAT(result, Contains(Pair("SITE", "1")));
  EXPECT_THAT(notes, Contains(HasSubstr("NCCL_IB_HCA=mlx5_9")));
}

TEST(RankEnvironment, AsksForExactInterfaceNames) {
  auto sources = infiniband();
  sources.network.fabric = "roce";
  sources.network.socket_interfaces = {"bond0"};
  sources.network.gid_index = 3;
  std::vector<std::string> notes;
  const auto result = rank_environment(sources, notes);
  EXPECT_THAT(result, Contains(Pair("NCCL_SOCKET_IFNAME", "=bond0")));
  EXPECT_THAT(result, Contains(Pair("NCCL_IB_GID_INDEX", "3")));
}

}  // namespace
}  // namespace railyard::launch
