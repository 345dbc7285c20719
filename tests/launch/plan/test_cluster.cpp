// Sites as clusters.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/place/place.hpp"
#include "launch/plan/cluster.hpp"
#include "launch/plan/volume.hpp"
#include "runtime/base/error.hpp"
#include "tests/launch/place/machines.hpp"
#include "tests/launch/plan/jobs.hpp"

namespace railyard::launch {
namespace {

using namespace testing_jobs;

TEST(Cluster, OfASiteHasItsGpusLinksAndRails) {
  const Cluster c = synthetic_cluster(h100_site("leaf_nodes = 2"), 4, 1);
  EXPECT_EQ(c.nodes(), 4);
  EXPECT_EQ(c.slots(), 32);
  EXPECT_TRUE(c.has_gpus);
  ASSERT_TRUE(c.spec);
  EXPECT_EQ(c.spec->name, "H100-SXM5-80GB");
  EXPECT_EQ(c.nvlink_domain, 8);
  EXPECT_TRUE(c.allocation.rail_optimised);
  const auto& gpu = c.allocation.nodes[1].facts.gpus[3];
  EXPECT_EQ(gpu.nic, "rail3");
  EXPECT_EQ(gpu.rail, 3);
  EXPECT_EQ(gpu.nvlink->size(), 7U);
  ASSERT_TRUE(c.allocation.fabric);
  EXPECT_EQ(topology::switch_paths(*c.allocation.fabric).size(), 4U);
}

TEST(Cluster, OfRacksKnowsTheirDomains) {
  const Json site = site_of("node = { gpus = 4, gpu = \"GB200-186GB\", nvlink_domain = 72 }, fabric = { rails = 4 }");
  const Cluster c = synthetic_cluster(site, 20, 1);
  EXPECT_EQ(c.nodes(), 20);
  EXPECT_TRUE(c.allocation.blocks_are_nvlink);
  ASSERT_EQ(c.allocation.fabric->blocks.size(), 2U);
  EXPECT_EQ(c.allocation.nodes[17].name, "r1n18");
  EXPECT_EQ(c.allocation.nodes[18].name, "r2n01");
}

TEST(Cluster, FewerRailsThanGpusAreShared) {
  const Json site = site_of("node = { gpus = 8, gpu = \"A100-SXM4-80GB\" }, fabric = { rails = 4, nic_gbps = 200 }");
  const Cluster c = synthetic_cluster(site, 1, 1);
  EXPECT_EQ(c.allocation.nodes[0].facts.gpus[1].rail, 0);
  EXPECT_EQ(c.allocation.nodes[0].facts.gpus[7].rail, 3);
  EXPECT_EQ(c.nvlink_domain, 8);  // from the card, and said
  EXPECT_THAT(c.guesses, testing::Contains(testing::HasSubstr("nvlink_domain is not given")));
}

TEST(Cluster, WithoutGpusTakesRanks) {
  const Cluster c = synthetic_cluster(site_of("node = { memory = \"64 GiB\" }"), 2, 3);
  EXPECT_FALSE(c.has_gpus);
  EXPECT_EQ(c.slots(), 6);
  EXPECT_EQ(c.node_memory_gib, 64);
}

TEST(Cluster, BadRequestsAreRefused) {
  EXPECT_THROW((void)synthetic_cluster(h100_site(), 0, 1), UsageError);
  EXPECT_THROW((void)synthetic_cluster(h100_site("topology = \"/nowhere/topology.conf\""), 2, 1), UsageError);
}

TEST(Cluster, FoundNodesKeepWhatWasFoundAndLoseExcludedNics) {
  topology::Machine machine;
  machine.nodes = {testing_machines::switched_node(8), testing_machines::switched_node(8)};
  machine.nodes[0].name = "a";
  machine.nodes[1].name = "b";
  const Json site = site_of("node = { nvlink_domain = 8 }, fabric = { nic_exclude = { \"mlx5_0\" }, nic_gbps = 200 }");
  const Cluster c = live_cluster(site, machine, {{0, 1, 2, 3}, {4, 5, 6, 7}}, 1);
  EXPECT_EQ(c.slots(), 8);
  EXPECT_EQ(c.gpu, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(c.allocation.nodes[0].facts.nics.size(), 7U);
  EXPECT_NE(c.allocation.nodes[0].facts.gpus[0].nic, "mlx5_0");
  EXPECT_EQ(c.allocation.nodes[1].facts.gpus[5].nic, "mlx5_5");
  EXPECT_EQ(c.allocation.nodes[1].facts.nics.back().rate_gbps, 400);  // as found, not as the site says
}

TEST(Cluster, ANodeThatShowsNoGpuTakesNoRank) {
  topology::Machine machine;
  machine.nodes = {testing_machines::switched_node(4), topology::Node{}};
  machine.nodes[0].name = "good";
  machine.nodes[1].name = "silent";
  const Cluster c = live_cluster(site_of(""), machine, {}, 2);
  EXPECT_EQ(c.slots(), 4);
  EXPECT_EQ(c.nvlink_domain, 4);  // as the node shows
  EXPECT_THAT(c.guesses, testing::Contains(testing::HasSubstr("silent shows no GPU")));
}

TEST(Volume, IsPlacedWithoutComplaint) {
  const JobSpec job =
      job_of("models.llama3_8b {}", "tp = 8, pp = 2, sequence_parallel = true",
             "micro_batch = 1, global_batch = 64, precision = \"bf16\", optimizer = { distributed = true }");
  const Layout layout = Layout::resolve(job.parallel, 32);
  const Cluster c = synthetic_cluster(h100_site("leaf_nodes = 2"), 4, 1);
  const Placement placed = place(layout, c.allocation, traffic_of(job, layout), c.rates);
  ASSERT_EQ(placed.ranks.size(), 32U);
  for (int r = 0; r < 8; ++r) EXPECT_EQ(placed.ranks[static_cast<std::size_t>(r)].node, placed.ranks[0].node);
}

TEST(Volume, FollowsFromShapes) {
  const JobSpec job =
      job_of("models.llama3_8b { seq_length = 4096 }", "tp = 4, pp = 2, sequence_parallel = true",
             "micro_batch = 2, global_batch = 32, precision = \"bf16\", optimizer = { distributed = true }");
  const Layout layout = Layout::resolve(job.parallel, 16);  // dp 2
  const AxisBytes bytes = axis_bytes(job, layout);
  const double activation = 2.0 * 4096 * 4096 * 2, pass = activation * 3 / 4;
  // 16 blocks of 10 passes and the ends' 2, 8 microbatches.
  EXPECT_DOUBLE_EQ(bytes.tp, (16 * 10 + 2) * pass * 8);
  EXPECT_DOUBLE_EQ(bytes.pp, activation / 4 * 8);
  const double block = (4096.0 * (4096 + 2048) + 4096.0 * 4096 + 3 * 4096.0 * 14336) / 4 + 2 * 4096;
  const double head = 128512.0 * 4096 / 4 + 4096;  // the vocabulary is padded to a multiple of 128 x 4
  EXPECT_DOUBLE_EQ(bytes.dp, (16 * block + head) / 2 * 6);
}

}  // namespace
}  // namespace railyard::launch
