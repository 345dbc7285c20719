// Rank arithmetic against Megatron-Core's documented orders.
#include <gtest/gtest.h>

#include <set>

#include "runtime/base/error.hpp"
#include "runtime/base/layout.hpp"

namespace railyard {
namespace {

ParallelSpec spec(int tp, int cp, int dp, int pp, int ep = 1, int etp = 0) {
  ParallelSpec s;
  s.tp = tp;
  s.cp = cp;
  s.dp = dp;
  s.pp = pp;
  s.ep = ep;
  s.etp = etp;
  s.order = "tp-cp-ep-dp-pp";
  return s;
}

// The example in Megatron-Core's initialize_model_parallel: 16 GPUs, tp 2, pp 4.
TEST(Layout, MegatronExampleGroups) {
  const Layout layout = Layout::resolve(spec(2, 1, 0, 4), 16);
  EXPECT_EQ(layout.dp, 2);
  EXPECT_EQ(layout.group(0, {Axis::kTp}), (std::vector<int>{0, 1}));
  EXPECT_EQ(layout.group(0, {Axis::kDp}), (std::vector<int>{0, 2}));
  EXPECT_EQ(layout.group(5, {Axis::kPp}), (std::vector<int>{1, 5, 9, 13}));
}

TEST(Layout, CoordinatesAreABijectionForEveryOrder) {
  for (const char* order : {"tp-cp-ep-dp-pp", "tp-pp-dp-cp-ep", "pp-dp-ep-cp-tp", "dp-tp-cp-pp-ep"}) {
    ParallelSpec s = spec(2, 2, 2, 3, 2, 1);
    s.order = order;
    const Layout layout = Layout::resolve(s, 24);
    std::set<std::vector<int>> attention, expert;
    for (int rank = 0; rank < layout.ranks(); ++rank) {
      const Coordinate c = layout.coordinate(rank);
      EXPECT_EQ(layout.rank_of(c.tp, c.cp, c.dp, c.pp), rank);
      attention.insert({c.tp, c.cp, c.dp, c.pp});
      expert.insert({c.etp, c.ep, c.edp, c.pp});
    }
    EXPECT_EQ(attention.size(), 24U) << order;
    EXPECT_EQ(expert.size(), 24U) << order;
  }
}

TEST(Layout, GroupsPartitionTheRanks) {
  const Layout layout = Layout::resolve(spec(2, 1, 4, 2, 4, 1), 16);
  for (const auto& axes :
       std::vector<std::vector<Axis>>{{Axis::kTp}, {Axis::kDp}, {Axis::kEp}, {Axis::kEdp}, {Axis::kDp, Axis::kCp}}) {
    size_t size = 1;
    for (const Axis axis : axes) size *= static_cast<size_t>(layout.degree(axis));
    for (int rank = 0; rank < 16; ++rank) {
      const auto members = layout.group(rank, axes);
      EXPECT_EQ(members.size(), size);
      for (const int member : members) EXPECT_EQ(layout.group(member, axes), members);
    }
  }
}

TEST(Layout, RefusesWhatCannotWork) {
  EXPECT_THROW(Layout::resolve(spec(3, 1, 0, 1), 8), UsageError);
  EXPECT_THROW(Layout::resolve(spec(2, 1, 2, 1), 8), UsageError);
  EXPECT_THROW(Layout::resolve(spec(0, 1, 0, 1), 8), UsageError);
  EXPECT_THROW(Layout::resolve(spec(1, 1, 0, 1), 0), UsageError);
  EXPECT_THROW(Layout::resolve(spec(2, 1, 2, 1, 3), 4), UsageError);
  ParallelSpec s = spec(1, 1, 0, 1);
  s.order = "tp-dp";
  EXPECT_THROW(Layout::resolve(s, 4), UsageError);
}

}  // namespace
}  // namespace railyard
