// Splits the world into the groups of a layout.
#include "runtime/parallel/groups.hpp"

#include <algorithm>

namespace railyard {

ParallelGroups ParallelGroups::planned(const Layout& layout, const Coordinate& at) {
  ParallelGroups groups;
  groups.layout = layout;
  groups.at = at;
  const int rank = layout.rank_of(at.tp, at.cp, at.dp, at.pp);
  const auto members = layout.group(rank, {Axis::kDp, Axis::kCp});
  groups.replicas = static_cast<int>(members.size());
  groups.replica = static_cast<int>(std::find(members.begin(), members.end(), rank) - members.begin());
  return groups;
}

ParallelGroups ParallelGroups::make(const Layout& layout, Communicator& communicator) {
  const int rank = communicator.rank();
  RAILYARD_CHECK(layout.ranks() == communicator.size(), "layout of {} ranks in a world of {}", layout.ranks(),
                 communicator.size());
  ParallelGroups groups = planned(layout, layout.coordinate(rank));
  groups.communicator = &communicator;
  const Coordinate& at = groups.at;
  const auto make = [&](const std::vector<Axis>& axes, const std::string& name) {
    return communicator.make_group(layout.group(rank, axes), name);
  };
  groups.world = make({Axis::kTp, Axis::kCp, Axis::kDp, Axis::kPp}, "world");
  groups.tp = make({Axis::kTp}, fmt::format("tp (cp {} dp {} pp {})", at.cp, at.dp, at.pp));
  groups.dp = make({Axis::kDp, Axis::kCp}, fmt::format("dp (tp {} pp {})", at.tp, at.pp));
  groups.same_layers = make({Axis::kTp, Axis::kCp, Axis::kDp}, fmt::format("stage {}", at.pp));
  groups.pipeline_forward = make({Axis::kPp}, fmt::format("pp forward (tp {} cp {} dp {})", at.tp, at.cp, at.dp));
  groups.pipeline_backward = make({Axis::kPp}, fmt::format("pp backward (tp {} cp {} dp {})", at.tp, at.cp, at.dp));
  // make_group is collective: stages in the middle make a group of themselves and drop it.
  std::vector<int> ends{rank};
  if (groups.first_stage() || groups.last_stage())
    ends = {layout.rank_of(at.tp, at.cp, at.dp, 0), layout.rank_of(at.tp, at.cp, at.dp, layout.pp - 1)};
  if (ends.size() == 2 && ends[0] == ends[1]) ends.pop_back();
  std::sort(ends.begin(), ends.end());
  auto embedding = communicator.make_group(ends, fmt::format("embedding (tp {} cp {} dp {})", at.tp, at.cp, at.dp));
  if (ends.size() == 2) groups.embedding = std::move(embedding);
  return groups;
}

}  // namespace railyard
