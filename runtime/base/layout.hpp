// Parallel degrees, the coordinate of each rank and the groups of ranks that differ in one axis only.
// Orders follow Megatron-Core's parallel_state (RankGenerator): the first axis of the order string varies fastest.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/job.hpp"

namespace railyard {

// Axes of a layout. Attention ranks have (tp, cp, dp, pp); expert ranks have (etp, ep, edp, pp).
enum class Axis { kTp, kCp, kDp, kPp, kEtp, kEp, kEdp };

[[nodiscard]] std::string_view axis_name(Axis axis);

struct Coordinate {
  int tp = 0, cp = 0, dp = 0, pp = 0;
  int etp = 0, ep = 0, edp = 0;
  friend bool operator==(const Coordinate&, const Coordinate&) = default;
  [[nodiscard]] int at(Axis axis) const;
};

// A layout with every degree known. Ranks here are logical: placement maps them to nodes and devices.
class Layout {
 public:
  Layout() = default;

  // Fills `dp = "fill"` so that tp*cp*dp*pp == ranks and checks every product and divisibility that does not need the
  // model. UsageError names the keys when they cannot agree. With ranks == 0, dp must be given.
  static Layout resolve(const ParallelSpec& spec, int ranks);

  [[nodiscard]] int ranks() const { return tp * cp * dp * pp; }
  [[nodiscard]] int degree(Axis axis) const;
  [[nodiscard]] Coordinate coordinate(int rank) const;
  [[nodiscard]] int rank_of(int tp_index, int cp_index, int dp_index, int pp_index) const;

  // Ranks that share all attention (or expert) coordinates with `rank` but those in `axes`, ascending along the order
  // with the first of `axes` as it appears in the order varying fastest.
  [[nodiscard]] std::vector<int> group(int rank, const std::vector<Axis>& axes) const;

  [[nodiscard]] Json to_json() const;

  int tp = 1, cp = 1, dp = 1, pp = 1, vpp = 1, ep = 1, etp = 1, edp = 1;
  bool sequence_parallel = false;
  std::string order = "tp-cp-ep-dp-pp";

 private:
  struct Slot {
    Axis axis;
    int degree;
  };
  [[nodiscard]] std::vector<Slot> attention_order() const;
  [[nodiscard]] std::vector<Slot> expert_order() const;
};

}  // namespace railyard
