// Placement on fragmented allocations of a fat tree at 85 % load, beside the orders of other launchers: spread of
// groups, off-rail bytes, the objective's and a flow simulation's step time, and the time to solve. Arguments: draws
// [100].
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <iterator>

#include "launch/place/orders.hpp"
#include "launch/place/simulate.hpp"
#include "launch/place/tiling.hpp"
#include "tests/launch/place/machines.hpp"

namespace {

using namespace railyard;
using namespace railyard::launch;
using namespace railyard::launch::testing_machines;

template <class Value>
Value median(std::vector<Value> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

struct Figures {
  std::vector<double> leaves, crossings, off_rail, seconds, simulated;
  void add(const PlacementCost& cost, double simulation) {
    double most_leaves = 0, most_crossings = 0, off = 0, network = 0;
    for (const auto& axis : cost.axes) {
      most_leaves = std::max<double>(most_leaves, axis.most_leaves);
      most_crossings = std::max<double>(most_crossings, axis.most_crossings);
      off += axis.bytes[static_cast<std::size_t>(LinkClass::kCrossRail)];
      for (const LinkClass link : {LinkClass::kRail, LinkClass::kCrossRail, LinkClass::kLeaf, LinkClass::kSpine})
        network += axis.bytes[static_cast<std::size_t>(link)];
    }
    leaves.push_back(most_leaves);
    crossings.push_back(most_crossings);
    off_rail.push_back(network > 0 ? 100 * off / network : 0);
    seconds.push_back(cost.seconds);
    simulated.push_back(simulation);
  }
};

void measure(int nodes, const Layout& layout, const char* name, Load load, int draws) {
  constexpr int kOrders = 4;
  const auto node = switched_node(8);
  const auto traffic = usual_traffic();
  Figures figures[kOrders];
  std::vector<double> solve, spread_gain, crossing_gain, bounds;
  for (int draw = 0; draw < draws; ++draw) {
    const auto allocation = fragmented_allocation(nodes, static_cast<std::uint64_t>(draw) + 1, node, load);
    const auto begin = std::chrono::steady_clock::now();
    const auto placed = place(layout, allocation, traffic);
    solve.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    const MachineGraph graph(allocation, {});
    const auto flows = make_flows(layout, traffic);
    bounds.push_back(least_spread(layout, graph, flows, placed.slot_of));
    const bool simulates = draw < 5;  // the simulation takes longer than all the rest
    figures[0].add(placed.cost, simulates ? simulated_seconds(graph, flows, placed.slot_of) : 0);
    int i = 1;
    for (const RankOrder order : {RankOrder::kSlurmBlock, RankOrder::kSlurmCyclic, RankOrder::kAlphabetical}) {
      const auto other = place_in_order(layout, allocation, traffic, order);
      figures[i++].add(other.cost, simulates ? simulated_seconds(graph, flows, other.slot_of) : 0);
    }
    spread_gain.push_back(figures[3].leaves.back() / figures[0].leaves.back());
    crossing_gain.push_back(figures[3].crossings.back() / figures[0].crossings.back());
  }
  const char* names[kOrders] = {"railyard", "Slurm block", "Slurm cyclic", "alphabetical"};
  fmt::print("\n{} nodes, {}, {}, median of {} draws (simulation: of {})\n{:<14} {:>8} {:>10} {:>10} {:>12} {:>14}\n",
             nodes, name, load == Load::kBestFit ? "best-fit load" : "scattered load", draws, std::min(draws, 5),
             "order", "leaves", "crossings", "off-rail %", "objective s", "simulated s");
  for (int i = 0; i < kOrders; ++i) {
    auto& one = figures[i];
    one.simulated.resize(static_cast<std::size_t>(std::min(draws, 5)));
    fmt::print("{:<14} {:>8.0f} {:>10.0f} {:>10.1f} {:>12.4f} {:>14.4f}\n", names[i], median(one.leaves),
               median(one.crossings), median(one.off_rail), median(one.seconds), median(one.simulated));
  }
  fmt::print(
      "no order can have fewer leaves than {:.0f}; spread against alphabetical: leaves {:.2f}x, crossings {:.2f}x; "
      "solved "
      "in {:.3f} s (longest {:.3f} s)\n",
      median(bounds), median(spread_gain), median(crossing_gain), median(solve),
      *std::max_element(solve.begin(), solve.end()));
}

}  // namespace

int main(int argc, char** argv) {
  const int draws = argc > 1 ? std::atoi(argv[1]) : 100;
  if (draws < 1 || draws > 100000) {
    fmt::print(stderr, "usage: bench_placement [DRAWS]\n");
    return 2;
  }
  fmt::print(
      "Largest spread of a group over leaves: leaves touched, and passes between leaves along its ring or chain.\n"
      "Where a layout has one data-parallel group per GPU of a node (no pipeline), it touches every leaf in any "
      "order.\n");
  for (const Load load : {Load::kBestFit, Load::kScattered})
    for (const int nodes : {128, 256, 512, 1024, 1248}) {
      measure(nodes, make_layout(8, 1, nodes / 8, 8), "tp 8 x pp 8 x dp", load, draws);
      measure(nodes, make_layout(8, 1, nodes, 1), "tp 8 x dp", load, draws);
    }
  return 0;
}
