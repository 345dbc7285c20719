// Placement: optimal on small machines, never worse than other launchers' orders, aligned with the fabric on large
// ones, and confirmed by a flow simulation. Figures at full size are bench_placement's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <numeric>
#include <set>

#include "launch/place/orders.hpp"
#include "launch/place/packing.hpp"
#include "launch/place/report.hpp"
#include "launch/place/search.hpp"
#include "launch/place/simulate.hpp"
#include "runtime/base/error.hpp"
#include "tests/launch/place/machines.hpp"

namespace railyard::launch {
namespace {

using namespace testing_machines;
using testing::HasSubstr;

Allocation allocation_of(const topology::Node& node, const std::vector<std::vector<int>>& gpus) {
  Allocation allocation;
  for (std::size_t n = 0; n < gpus.size(); ++n)
    allocation.nodes.push_back({"n" + std::to_string(n + 1), node, gpus[n]});
  return allocation;
}

// A valid placement: every rank on a granted GPU of its own.
void expect_valid(const Layout& layout, const Allocation& allocation, const Placement& placement) {
  ASSERT_EQ(placement.ranks.size(), static_cast<std::size_t>(layout.ranks()));
  std::set<std::pair<int, int>> used;
  for (const auto& place : placement.ranks) {
    const auto& granted = allocation.nodes[static_cast<std::size_t>(place.node)].gpus;
    EXPECT_THAT(granted, testing::Contains(place.gpu));
    EXPECT_TRUE(used.insert({place.node, place.gpu}).second);
  }
}

// The least objective over all assignments of ranks to slots, where slots of one class are interchangeable.
double exhaustive(const Layout& layout, const Allocation& allocation, const Traffic& traffic,
                  const std::vector<int>& slot_class) {
  const MachineGraph graph(allocation, {});
  const auto flows = make_flows(layout, traffic);
  CostModel cost(graph, flows);
  std::vector<std::vector<int>> members(
      static_cast<std::size_t>(*std::max_element(slot_class.begin(), slot_class.end())) + 1);
  for (std::size_t slot = 0; slot < slot_class.size(); ++slot)
    members[static_cast<std::size_t>(slot_class[slot])].push_back(static_cast<int>(slot));
  std::vector<int> classes(slot_class);
  std::sort(classes.begin(), classes.end());
  double best = 1e300;
  std::vector<int> slot_of(classes.size());
  do {
    std::vector<std::size_t> next(members.size());
    for (std::size_t rank = 0; rank < classes.size(); ++rank) {
      const auto c = static_cast<std::size_t>(classes[rank]);
      slot_of[rank] = members[c][next[c]++];
    }
    best = std::min(best, cost.objective(slot_of));
  } while (std::next_permutation(classes.begin(), classes.end()));
  return best;
}

TEST(PlacementOptimum, EightGpusOnOddNodes) {
  const auto h100 = switched_node(8), pcie = switched_node(8, 0), mesh = cube_mesh_node();
  const std::vector<Allocation> machines{
      allocation_of(h100, {{0, 1, 2, 3}, {4, 5, 6, 7}}),   allocation_of(h100, {{0, 1, 2, 3, 4, 5, 6}, {3}}),
      allocation_of(h100, {{5, 1, 3}, {0, 2}, {4, 6, 7}}), allocation_of(pcie, {{0, 2, 4, 6}, {1, 3, 5, 7}}),
      allocation_of(mesh, {{0, 1, 2, 3, 4, 5, 6, 7}}),     allocation_of(mesh, {{0, 1, 4, 5}, {2, 3, 6, 7}})};
  std::vector<int> own(8);
  std::iota(own.begin(), own.end(), 0);
  for (std::size_t m = 0; m < machines.size(); ++m)
    for (const auto& layout :
         {make_layout(2, 1, 2, 2), make_layout(4, 1, 2, 1), make_layout(2, 2, 1, 2), make_layout(1, 1, 4, 2)}) {
      const auto placed = place(layout, machines[m], usual_traffic());
      expect_valid(layout, machines[m], placed);
      const double best = exhaustive(layout, machines[m], usual_traffic(), own);
      EXPECT_LE(placed.cost.objective, best * (1 + 1e-9)) << "machine " << m << " " << layout.to_json().dump();
    }
}

TEST(PlacementOptimum, SixteenGpusWhereANodesAreAlike) {
  // One NIC a node and an NVSwitch: a node's GPUs are interchangeable, so classes of slots are nodes.
  auto node = switched_node(8);
  node.nics.resize(1);
  for (auto& gpu : node.gpus) {
    gpu.nic = "mlx5_0";
    gpu.rail = 0;
  }
  for (const auto& grants : std::vector<std::vector<std::vector<int>>>{{first_gpus(8), first_gpus(8)},
                                                                       {first_gpus(7), first_gpus(7), first_gpus(2)}}) {
    const auto allocation = allocation_of(node, grants);
    std::vector<int> classes;
    for (std::size_t n = 0; n < grants.size(); ++n)
      classes.insert(classes.end(), grants[n].size(), static_cast<int>(n));
    for (const auto& layout : {make_layout(4, 1, 2, 2), make_layout(2, 1, 2, 4)}) {
      const auto placed = place(layout, allocation, usual_traffic());
      expect_valid(layout, allocation, placed);
      EXPECT_LE(placed.cost.objective, exhaustive(layout, allocation, usual_traffic(), classes) * (1 + 1e-9))
          << grants.size() << " " << layout.to_json().dump();
    }
  }
}

TEST(Placement, IsNeverWorseThanSlurmBlockOnFragmentedAllocations) {
  const auto node = switched_node(8);
  Random random(7);
  for (int draw = 0; draw < 1000; ++draw) {
    Allocation allocation;
    const int nodes = 2 + random.below(9);
    allocation.fabric = topology::make_fat_tree(
        {.nodes = 40, .nodes_per_leaf = 4, .leaves_per_spine = 4, .round_robin = random.below(2) == 1});
    std::set<int> names;
    while (static_cast<int>(names.size()) < nodes) names.insert(1 + random.below(40));
    int slots = 0;
    for (const int name : names) {
      std::vector<int> gpus;
      for (int g = 0; g < 8; ++g)
        if (random.below(8) > 0) gpus.push_back(g);
      if (gpus.empty()) gpus.push_back(random.below(8));
      slots += static_cast<int>(gpus.size());
      allocation.nodes.push_back({"node" + std::to_string(name), node, gpus});
    }
    const int tp = 1 << random.below(4), pp = 1 << random.below(3);
    if (slots < tp * pp) continue;
    const auto layout = make_layout(tp, 1, slots / (tp * pp), pp);
    const MachineGraph graph(allocation, {});
    const auto flows = make_flows(layout, usual_traffic());
    CostModel cost(graph, flows);
    const auto block = slots_in_order(allocation, graph, layout.ranks(), RankOrder::kSlurmBlock);
    PlacementSearch search(layout, graph, flows);  // the start of place(); exchanges afterwards only improve it
    search.consider(block);
    search.consider_nestings();
    search.consider_strips();
    ASSERT_TRUE(search.best());
    ASSERT_LE(cost.objective(*search.best()), cost.objective(block) * (1 + 1e-9)) << "draw " << draw;
    if (draw % 50 != 0) continue;
    const auto placed = place(layout, allocation, usual_traffic());
    expect_valid(layout, allocation, placed);
    EXPECT_LE(placed.cost.objective, cost.objective(*search.best()) * (1 + 1e-9)) << "draw " << draw;
  }
}

TEST(Placement, AlignsGroupsWithLeavesAndTheSimulationAgrees) {
  const auto node = switched_node(8);
  const auto layout = make_layout(8, 1, 16, 8);
  std::vector<double> gains;
  for (int draw = 1; draw <= 7; ++draw) {
    const auto allocation = fragmented_allocation(128, static_cast<std::uint64_t>(draw), node, Load::kScattered);
    const auto placed = place(layout, allocation, usual_traffic());
    const MachineGraph graph(allocation, {});
    const auto flows = make_flows(layout, usual_traffic());
    const double ours = simulated_seconds(graph, flows, placed.slot_of);
    const auto spread = [](const PlacementCost& cost) {
      int most = 0;
      for (const auto& axis : cost.axes) most = std::max(most, axis.most_leaves);
      return most;
    };
    for (const RankOrder order : {RankOrder::kSlurmBlock, RankOrder::kSlurmCyclic, RankOrder::kAlphabetical}) {
      const auto other = place_in_order(layout, allocation, usual_traffic(), order);
      EXPECT_LT(ours, simulated_seconds(graph, flows, other.slot_of)) << rank_order_name(order);
      if (order == RankOrder::kAlphabetical)
        gains.push_back(static_cast<double>(spread(other.cost)) / spread(placed.cost));
    }
    EXPECT_NEAR(ours, placed.cost.seconds, 0.05 * ours);  // the busiest link explains nearly all
  }
  std::sort(gains.begin(), gains.end());
  EXPECT_GE(gains[gains.size() / 2], 1.67);
}

TEST(Placement, SolvesTenThousandGpusQuickly) {
  const auto allocation = fragmented_allocation(1250, 3, switched_node(8), Load::kScattered);
  const auto layout = make_layout(8, 1, 125, 10);
  const std::clock_t begin = std::clock();  // processor time: test machines are shared
  const auto placed = place(layout, allocation, usual_traffic());
  const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  EXPECT_EQ(placed.ranks.size(), 10000U);
#ifdef NDEBUG
  EXPECT_LT(seconds, 2.0);
#else
  (void)seconds;
#endif
}

TEST(Placement, IsTheSameEachTime) {
  const auto allocation = fragmented_allocation(32, 5, switched_node(8));
  const auto layout = make_layout(4, 1, 16, 4);
  EXPECT_EQ(place(layout, allocation, usual_traffic()).slot_of, place(layout, allocation, usual_traffic()).slot_of);
}

TEST(Placement, RefusesUnlikeGpusInATensorParallelGroup) {
  Allocation allocation;
  allocation.nodes.push_back({"a", switched_node(4), first_gpus(3)});
  allocation.nodes.push_back({"b", switched_node(4, 12, "NVIDIA A100-SXM4-80GB"), first_gpus(1)});
  EXPECT_THROW(
      {
        try {
          (void)place(make_layout(4, 1, 1, 1), allocation, usual_traffic());
        } catch (const UsageError& error) {
          EXPECT_THAT(error.what(), HasSubstr("unlike GPUs"));
          throw;
        }
      },
      UsageError);
  allocation.nodes[0].gpus = first_gpus(4);
  allocation.nodes[1].gpus = first_gpus(4);
  const auto placed = place(make_layout(4, 1, 2, 1), allocation, usual_traffic());
  EXPECT_EQ(placed.ranks[0].node, placed.ranks[3].node);
}

TEST(Placement, RefusesMoreRanksThanGpusAndGpusThatAreNotThere) {
  const auto node = switched_node(4);
  EXPECT_THROW((void)place(make_layout(4, 1, 2, 1), allocation_of(node, {first_gpus(4)}), usual_traffic()), UsageError);
  EXPECT_THROW((void)place(make_layout(1, 1, 1, 1), allocation_of(node, {{7}}), usual_traffic()), UsageError);
  EXPECT_THROW((void)place(make_layout(1, 1, 1, 1), Allocation{}, usual_traffic()), UsageError);
}

TEST(Placement, SharesNearCpusAmongTheRanksOfANode) {
  const auto layout = make_layout(8, 1, 1, 1);
  const auto allocation = allocation_of(switched_node(8), {first_gpus(8)});
  const auto placed = place(layout, allocation, usual_traffic());
  topology::CpuSet all;
  int count = 0;
  for (const auto& place : placed.ranks) {
    ASSERT_TRUE(place.cpus);
    EXPECT_EQ(place.cpus->count(), 8);
    EXPECT_EQ(place.nic, "mlx5_" + std::to_string(place.gpu));
    all = all | *place.cpus;
    count += place.cpus->count();
  }
  EXPECT_EQ(all.count(), count);
  const auto map = placement_map_json(layout, allocation, placed);
  EXPECT_EQ(map.size(), 8U);
  EXPECT_EQ(map[0]["node"], "n1");
}

TEST(Placement, WorksWithoutGpus) {
  Allocation allocation;
  for (int n = 0; n < 3; ++n) allocation.nodes.push_back({"c" + std::to_string(n), {}, first_gpus(2)});
  const auto layout = make_layout(2, 1, 3, 1);
  const auto placed = place(layout, allocation, usual_traffic());
  expect_valid(layout, allocation, placed);
  for (int rank = 0; rank < 6; rank += 2)
    EXPECT_EQ(placed.ranks[static_cast<std::size_t>(rank)].node, placed.ranks[static_cast<std::size_t>(rank) + 1].node);
  EXPECT_FALSE(placed.ranks[0].nic);
}

TEST(Simulation, SharesALinkFairly) {
  // Two ranks of one node send over one NIC each way: twice the time of one.
  auto node = switched_node(2);
  for (auto& gpu : node.gpus) gpu.nic = "mlx5_0";
  const auto allocation = allocation_of(node, {{0, 1}, {0, 1}});
  const MachineGraph graph(allocation, {});
  const Traffic traffic{{Axis::kDp, 48.5e9}};
  const auto flows = make_flows(make_layout(2, 1, 2, 1), traffic);
  EXPECT_NEAR(simulated_seconds(graph, flows, {0, 1, 2, 3}), 2.0, 1e-6);
  EXPECT_NEAR(CostModel(graph, flows).objective({0, 1, 2, 3}), 2.0, 0.01);
}

TEST(Report, ShowsTheThreeOrdersBeside) {
  const auto layout = make_layout(8, 1, 4, 2);
  const auto allocation = fragmented_allocation(8, 2, switched_node(8), Load::kScattered);
  const auto placed = place(layout, allocation, usual_traffic());
  const auto text = placement_summary(layout, allocation, usual_traffic(), placed);
  for (const char* word : {"railyard", "Slurm block", "Slurm cyclic", "alphabetical", "NVLink%", "leaves(x)"})
    EXPECT_THAT(text, HasSubstr(word));
  EXPECT_THAT(rank_table(layout, allocation, placed), HasSubstr("mlx5_7"));
  double tp = 0;
  for (const auto& link : placement_links_json(placed))
    if (link["axis"] == "tp") {
      EXPECT_EQ(link["class"], "nvlink");
      tp += link["gib_per_step"].get<double>();
    }
  EXPECT_NEAR(tp * 1024 * 1024 * 1024, 64 * 600e9, 1e6);
}

}  // namespace
}  // namespace railyard::launch
