// Ranks that exchange through a maximum, as the trainer does: who is named, who is not.
#include <gtest/gtest.h>

#include <functional>

#include "runtime/train/slow_rank.hpp"

namespace railyard {
namespace {

// Ranks 0..n-1, stage = rank % stages; runs `steps` steps in which rank r takes own(r, step) seconds.
std::vector<SlowRank> named(int ranks, int stages, int steps, const std::function<double(int, int)>& own) {
  std::vector<SlowRankWatch> watches;
  for (int rank = 0; rank < ranks; ++rank) watches.emplace_back(rank, stages, rank % stages);
  std::vector<SlowRank> result;
  for (int step = 0; step < steps; ++step) {
    std::vector<double> most(watches[0].size(), -1e308), mine(watches[0].size());
    for (int rank = 0; rank < ranks; ++rank) {
      watches[static_cast<std::size_t>(rank)].add(own(rank, step));
      watches[static_cast<std::size_t>(rank)].fill(mine);
      for (std::size_t i = 0; i < most.size(); ++i) most[i] = std::max(most[i], mine[i]);
    }
    for (int rank = 0; rank < ranks; ++rank) {
      const auto slow = watches[static_cast<std::size_t>(rank)].take(most, [&](int of) { return of % stages; });
      if (slow && rank == 0) result.push_back(*slow);
    }
  }
  return result;
}

TEST(SlowRank, NamesThePersistentOneOnce) {
  const auto found = named(4, 1, 200, [](int rank, int) { return rank == 2 ? 0.08 : 0.04; });
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].rank, 2);
  EXPECT_NEAR(found[0].own_s, 0.08, 1e-9);
  EXPECT_NEAR(found[0].fastest_s, 0.04, 1e-9);
}

TEST(SlowRank, ComparesWithinAStage) {
  // The last stage does three times the work: nobody is slow.
  EXPECT_TRUE(named(4, 2, 200, [](int rank, int) { return rank % 2 == 1 ? 0.3 : 0.1; }).empty());
  const auto found = named(4, 2, 200, [](int rank, int) { return rank == 3 ? 0.6 : rank == 1 ? 0.3 : 0.1; });
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].rank, 3);
  EXPECT_NEAR(found[0].fastest_s, 0.3, 1e-9);
}

TEST(SlowRank, KeepsQuietAboutNoise) {
  EXPECT_TRUE(named(4, 1, 400, [](int rank, int step) { return (step + rank) % 7 == 0 ? 0.07 : 0.05; }).empty());
  EXPECT_TRUE(named(4, 1, 400, [](int rank, int) { return rank == 1 ? 0.012 : 0.004; }).empty());  // too short
  EXPECT_TRUE(named(1, 1, 400, [](int, int step) { return step * 0.1; }).empty());                 // nobody to compare
  EXPECT_TRUE(named(2, 2, 400, [](int rank, int) { return rank == 1 ? 1.0 : 0.1; }).empty());      // alone in a stage
}

TEST(SlowRank, NamesAgainAfterALongTime) {
  const auto found = named(2, 1, SlowRankWatch::kSilence + 100, [](int rank, int) { return rank == 1 ? 0.2 : 0.1; });
  EXPECT_EQ(found.size(), 2U);
}

}  // namespace
}  // namespace railyard
