// What a placement costs: the objective that placement minimises.
#pragma once

#include <array>
#include <vector>

#include "launch/place/flows.hpp"
#include "launch/place/machine_graph.hpp"

namespace railyard::launch {

struct AxisCost {
  Axis axis = Axis::kTp;
  double seconds = 0;                        // load over capacity of the axis's busiest link
  std::array<double, kLinkClasses> bytes{};  // sent by all ranks, by what they cross
  int most_leaves = 0;                       // leaves that the most spread group touches; 0: leaves are unknown
  int most_crossings = 0;                    // times that its ring or chain passes from one leaf to another
};

struct PlacementCost {
  double objective = 0;
  double seconds = 0;
  std::vector<AxisCost> axes;
};

// slot_of[rank] for every logical rank. The axes follow one another, all groups of one at once: an axis takes as long
// as the link that carries most for its capacity. Loads on links add up over all groups. The objective is the sum over
// the axes, times S^0.2 when the most spread group touches S leaves: groups aligned with the fabric gain beyond what
// bandwidth explains (Arnold, arXiv 2509.15940: 10.6 % of throughput for 1.67 times less spread). A
// thousandth of the mean load breaks ties towards short ways.
class CostModel {
 public:
  CostModel(const MachineGraph& graph, const std::vector<AxisFlows>& flows);
  [[nodiscard]] double objective(const std::vector<int>& slot_of);
  [[nodiscard]] PlacementCost detail(const std::vector<int>& slot_of) const;

 private:
  const MachineGraph& graph_;
  const std::vector<AxisFlows>& flows_;
  std::vector<double> load_;
  std::vector<int> touched_;
  [[nodiscard]] double broken_cliques(const std::vector<int>& slot_of) const;  // share of tensor parallel groups
  [[nodiscard]] int most_leaves(const std::vector<int>& slot_of);
  int leaves_ = 0;                // of the allocation
  std::vector<int> leaf_number_;  // per slot, from 0; -1 unknown
  std::vector<int> seen_;         // per leaf, the stamp of the group that touched it last
  int stamp_ = 0;
};

}  // namespace railyard::launch
