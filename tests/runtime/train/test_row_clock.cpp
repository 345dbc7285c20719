// The measured timeline of a step: every row of every stage once, in an order that can have been.
#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "tests/runtime/train/job_fixture.hpp"

namespace railyard::test {
namespace {

TEST(RowClock, TellsEachRowOfAnEarlyStepOnce) {
  JobSpec job = gpt_job();
  job.parallel.tp = 2;
  job.parallel.pp = 2;
  job.parallel.dp = 2;
  job.train.iterations = 5;
  Folder folder;
  const RunOutcome run = run_job(job, folder.path(), 8);
  ASSERT_EQ(run.timelines.size(), 1U);
  const PipelineTimeline& timeline = run.timelines.front();
  EXPECT_EQ(timeline.step, 3);
  EXPECT_EQ(timeline.stages, 2);
  std::map<std::tuple<int, std::string, int>, PipelineTimeline::Row> rows;
  for (const PipelineTimeline::Row& row : timeline.rows) {
    EXPECT_LT(row.begin, row.end);
    EXPECT_TRUE(rows.emplace(std::tuple(row.stage, row.operation, row.microbatch), row).second) << row.operation;
  }
  const int microbatches = 16 / 2 / 2;
  ASSERT_EQ(rows.size(), 2U * (2 * microbatches + 1));  // and one update a stage
  // The stages' clocks start when each leaves a barrier: together to within less than a row takes.
  constexpr double kSkew = 1e-3;
  for (int m = 0; m < microbatches; ++m) {
    EXPECT_LE(rows.at({0, "forward", m}).end, rows.at({1, "forward", m}).begin + kSkew);
    EXPECT_LE(rows.at({1, "forward", m}).end, rows.at({1, "backward", m}).begin);
    EXPECT_LE(rows.at({1, "backward", m}).end, rows.at({0, "backward", m}).begin + kSkew);
  }
  for (const int stage : {0, 1})
    EXPECT_EQ(rows.at({stage, "update", 0}).begin, rows.at({stage, "backward", microbatches - 1}).end);
  EXPECT_LE(timeline.length(), run.steps[2].step_s);
}

// A start that ends before the usual step still tells one.
TEST(RowClock, ShortRunsTellTheirLastStep) {
  JobSpec job = llama_job();
  job.train.iterations = 2;
  Folder folder;
  const RunOutcome run = run_job(job, folder.path(), 1);
  ASSERT_EQ(run.timelines.size(), 1U);
  EXPECT_EQ(run.timelines.front().step, 2);
}

}  // namespace
}  // namespace railyard::test
