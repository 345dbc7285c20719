// Fewer bits train the same model to within their rounding: bf16 and fp8 losses follow fp32 ones step by step.
#include <gtest/gtest.h>

#include <cmath>

#include "runtime/base/error.hpp"
#include "tests/runtime/train/job_fixture.hpp"

namespace railyard::test {
namespace {

RunOutcome run_in(JobSpec job, const std::string& precision, int tp = 1, int pp = 1, int dp = 1,
                  const std::string& recipe = "current", std::int64_t iterations = 50) {
  job.train.precision = precision;
  job.train.fp8.recipe = recipe;
  job.train.fp8.amax_history = 16;
  job.train.iterations = job.train.lr.decay_iterations = iterations;
  job.parallel.tp = tp;
  job.parallel.pp = pp;
  job.parallel.dp = dp;
  Folder folder;
  return run_job(job, folder.path(), tp * pp * dp);
}

double largest_difference(const RunOutcome& a, const RunOutcome& b) {
  double largest = 0.0;
  for (size_t i = 0; i < a.steps.size(); ++i)
    largest = std::max(largest, std::abs(a.steps[i].loss / b.steps[i].loss - 1.0));
  return largest;
}

TEST(Precision, FewerBitsFollowFullPrecision) {
  for (const JobSpec& job : {gpt_job(), llama_job()}) {
    const RunOutcome fp32 = run_in(job, "fp32"), bf16 = run_in(job, "bf16"), fp8 = run_in(job, "fp8");
    EXPECT_LT(largest_difference(bf16, fp32), 0.01) << job.name;
    EXPECT_LT(largest_difference(fp8, fp32), 0.02) << job.name;
    EXPECT_GT(largest_difference(bf16, fp32), 0.0);  // the precision did change
    EXPECT_GT(largest_difference(fp8, bf16), 0.0);
  }
}

TEST(Precision, EightBitScalesDoNotDependOnTheLayout) {
  for (const JobSpec& job : {gpt_job(), llama_job()}) {
    const RunOutcome one = run_in(job, "fp8", 1, 1, 1, "current", 15);
    EXPECT_LT(largest_difference(run_in(job, "fp8", 2, 1, 1, "current", 15), one), 0.005) << job.name;
    EXPECT_LT(largest_difference(run_in(job, "fp8", 1, 3, 1, "current", 15), one), 0.005) << job.name;
    EXPECT_LT(largest_difference(run_in(job, "fp8", 1, 1, 2, "current", 15), one), 0.005) << job.name;
  }
}

TEST(Precision, EveryRecipeFollowsFullPrecisionInEveryLayout) {
  const JobSpec job = llama_job();
  const RunOutcome fp32 = run_in(job, "fp32", 1, 1, 1, "", 15);
  for (const char* recipe : {"delayed", "block"}) {
    const RunOutcome one = run_in(job, "fp8", 1, 1, 1, recipe, 15);
    EXPECT_LT(largest_difference(one, fp32), 0.02) << recipe;
    EXPECT_LT(largest_difference(run_in(job, "fp8", 2, 1, 1, recipe, 15), one), 0.005) << recipe;
    EXPECT_LT(largest_difference(run_in(job, "fp8", 1, 3, 1, recipe, 15), one), 0.005) << recipe;
    EXPECT_LT(largest_difference(run_in(job, "fp8", 1, 1, 2, recipe, 15), one), 0.005) << recipe;
  }
}

// The scales of delayed scaling are part of a checkpoint: a run that is stopped half-way goes on bit by bit.
TEST(Precision, DelayedScalesSurviveAStop) {
  JobSpec job = llama_job();
  job.train.precision = "fp8";
  job.train.fp8 = {.recipe = "delayed", .amax_history = 4};
  job.train.iterations = job.train.lr.decay_iterations = 12;
  job.parallel.tp = job.parallel.dp = 2;
  Folder whole, cut;
  const RunOutcome undisturbed = run_job(job, whole.path(), 4);
  JobSpec half = job;
  half.train.exit_interval = 7;
  run_job(half, cut.path(), 4);
  const RunOutcome resumed = run_job(job, cut.path(), 4);
  ASSERT_EQ(resumed.steps.size(), 5U);
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(resumed.steps[i].loss, undisturbed.steps[7 + i].loss) << 8 + i;
}

TEST(Precision, RefusesWhatEightBitsCannotDo) {
  JobSpec job = gpt_job();
  job.train.precision = "fp8";
  job.train.fp8.recipe = "current";
  Folder folder;
  job.model.ffn = 100;
  EXPECT_THROW(run_job(job, folder.path(), 1), UsageError);
  job.train.precision = "fp16";
  EXPECT_THROW(run_job(job, folder.path(), 1), UsageError);
}

}  // namespace
}  // namespace railyard::test
