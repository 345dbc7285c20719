// Every schedule of every size is sound: each microbatch runs forward then backward once on each stage, nobody waits
// for ever, and no more microbatches are in flight than the schedule promises.
#include <gtest/gtest.h>

#include "runtime/base/error.hpp"
#include "runtime/parallel/schedule.hpp"
#include "runtime/parallel/stages.hpp"

namespace railyard {
namespace {

TEST(Schedule1F1B, IsSoundForAnyStagesAndMicrobatches) {
  for (int stages = 1; stages <= 12; ++stages) {
    for (int microbatches = 1; microbatches <= 20; ++microbatches) {
      const Schedule schedule = schedule_1f1b(stages, microbatches);
      ASSERT_EQ(check_schedule(schedule), "") << stages << " stages, " << microbatches << " microbatches";
      for (int stage = 0; stage < stages; ++stage)
        ASSERT_LE(schedule.in_flight(stage, 0), std::min(stages - stage, microbatches));
    }
  }
}

TEST(Schedule1F1B, BubbleIsThatOfThePaper) {
  for (const auto& [stages, microbatches] : {std::pair{4, 8}, {8, 32}, {2, 2}}) {
    const std::vector<double> forward(static_cast<size_t>(stages), 1.0), backward(static_cast<size_t>(stages), 2.0);
    const Timeline timeline = simulate_schedule(schedule_1f1b(stages, microbatches), forward, backward, 0.0);
    EXPECT_NEAR(timeline.length, 3.0 * (microbatches + stages - 1), 1e-9);
    EXPECT_NEAR(timeline.bubble, (stages - 1.0) / (microbatches + stages - 1.0), 1e-9);
  }
}

TEST(ScheduleInterleaved, IsSoundAndShortensTheBubble) {
  for (int stages = 2; stages <= 6; ++stages) {
    for (int chunks = 2; chunks <= 4; ++chunks) {
      for (int groups = 1; groups <= 4; ++groups) {
        const int microbatches = stages * groups;
        const Schedule schedule = schedule_interleaved(stages, chunks, microbatches);
        ASSERT_EQ(check_schedule(schedule), "") << stages << " " << chunks << " " << microbatches;
        const std::vector<double> forward(static_cast<size_t>(stages * chunks), 1.0 / chunks);
        const std::vector<double> backward(static_cast<size_t>(stages * chunks), 2.0 / chunks);
        const Timeline timeline = simulate_schedule(schedule, forward, backward, 0.0);
        EXPECT_NEAR(timeline.length, 3.0 * microbatches + 3.0 * (stages - 1) / chunks, 1e-9);
      }
    }
  }
  EXPECT_THROW(schedule_interleaved(4, 2, 6), UsageError);
}

TEST(ScheduleForwardOnly, IsSound) {
  for (int stages = 1; stages <= 5; ++stages)
    for (int chunks = 1; chunks <= 3; ++chunks)
      ASSERT_EQ(check_schedule(schedule_forward_only(stages, chunks, 7), true), "");
}

TEST(CheckSchedule, FindsWhatIsWrong) {
  Schedule twice = schedule_1f1b(2, 3);
  twice.rows[0].push_back(twice.rows[0].front());
  EXPECT_NE(check_schedule(twice), "");
  Schedule missing = schedule_1f1b(2, 3);
  missing.rows[1].pop_back();
  EXPECT_NE(check_schedule(missing), "");
  Schedule backward_first = schedule_1f1b(1, 2);
  std::swap(backward_first.rows[0][0], backward_first.rows[0][1]);
  EXPECT_EQ(check_schedule(backward_first), "the stages wait for each other for ever");
}

TEST(SplitLayers, CoversEveryLayerOnceAndEvenly) {
  for (int pieces = 1; pieces <= 9; ++pieces) {
    for (std::int64_t layers = pieces; layers < 40; ++layers) {
      const auto ranges = split_layers(layers, pieces, 0, 0);
      std::int64_t next = 0, smallest = layers, largest = 0;
      for (const LayerRange& range : ranges) {
        ASSERT_EQ(range.begin, next);
        next = range.end;
        smallest = std::min(smallest, range.end - range.begin);
        largest = std::max(largest, range.end - range.begin);
      }
      ASSERT_EQ(next, layers);
      ASSERT_LE(largest - smallest, 1);
    }
  }
}

TEST(SplitLayers, KeepsTheOuterStagesAsAsked) {
  const auto ranges = split_layers(30, 4, 6, 4);
  EXPECT_EQ(ranges[0].end, 6);
  EXPECT_EQ(ranges[1].end - ranges[1].begin, 10);
  EXPECT_EQ(ranges[3].end - ranges[3].begin, 4);
  EXPECT_THROW(split_layers(3, 4, 0, 0), UsageError);
  EXPECT_THROW(split_layers(10, 2, 4, 5), UsageError);
}

}  // namespace
}  // namespace railyard
