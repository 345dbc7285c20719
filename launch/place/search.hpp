// The search for the best assignment of ranks to slots.
#pragma once

#include <optional>
#include <vector>

#include "launch/place/cost.hpp"

namespace railyard::launch {

class PlacementSearch {
 public:
  PlacementSearch(const Layout& layout, const MachineGraph& graph, const std::vector<AxisFlows>& flows);

  // Considers an assignment; kept when it is the best so far. False when a tp group would mix unlike GPUs.
  bool consider(const std::vector<int>& slot_of);
  void consider_nestings();  // axes nested in every order, large axes also split in two
  void consider_strips();    // two axes as a grid, filled leaf by leaf in strips of any height
  void consider_tilings();   // the best so far with its groups spread over fewer leaves
  void consider_all();       // every assignment; for up to 8 slots
  void improve();            // exchanges of ranks and idle slots, from the best so far

  [[nodiscard]] const std::optional<std::vector<int>>& best() const { return best_; }

 private:
  struct Digit {
    Axis axis;
    int size;
  };
  using Nesting = std::vector<Digit>;  // innermost first
  [[nodiscard]] std::vector<int> assign(const Nesting& nesting) const;
  [[nodiscard]] bool allowed(const std::vector<int>& slot_of) const;
  std::optional<double> try_nesting(const Nesting& nesting);

  const Layout& layout_;
  const MachineGraph& graph_;
  const std::vector<AxisFlows>& flows_;
  std::vector<Coordinate> coordinates_;
  CostModel cost_;
  std::size_t flow_count_ = 0;
  std::vector<std::vector<int>> tp_groups_;
  std::optional<std::vector<int>> best_;
  double best_cost_ = 0;
};

}  // namespace railyard::launch
