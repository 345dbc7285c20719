// Fewer bits train the same model to within their rounding: bf16 and fp8 losses follow fp32 ones step by step.
#include <gtest/gtest.h>

#include <cmath>

#include "runtime/base/error.hpp"
#include "tests/runtime/train/job_fixture.hpp"

namespace railyard::test {
namespace {

RunOutcome run_in(JobSpec job, const std::string& precision, int steps, int tp = 1, int pp = 1, int dp = 1) {
  job.train.precision = precision;
  job.train.fp8.recipe = "current";
  job.train.iterations = steps;
  job.train.lr.decay_iterations = steps;
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
    const RunOutcome fp32 = run_in(job, "fp32", 50), bf16 = run_in(job, "bf16", 50), fp8 = run_in(job, "fp8", 50);
    EXPECT_LT(largest_difference(bf16, fp32), 0.01) << job.name;
    EXPECT_LT(largest_difference(fp8, fp32), 0.02) << job.name;
    EXPECT_GT(largest_difference(bf16, fp32), 0.0);  // the precision did change
    EXPECT_GT(largest_difference(fp8, bf16), 0.0);
  }
}

TEST(Precision, EightBitScalesDoNotDependOnTheLayout) {
  for (const JobSpec& job : {gpt_job(), llama_job()}) {
    constexpr int kSteps = 20;  // past the warm-up
    const RunOutcome one = run_in(job, "fp8", kSteps);
    EXPECT_LT(largest_difference(run_in(job, "fp8", kSteps, 2), one), 0.005) << job.name;
    EXPECT_LT(largest_difference(run_in(job, "fp8", kSteps, 1, 3), one), 0.005) << job.name;
    EXPECT_LT(largest_difference(run_in(job, "fp8", kSteps, 1, 1, 2), one), 0.005) << job.name;
  }
}

TEST(Precision, RefusesWhatEightBitsCannotDo) {
  JobSpec job = gpt_job();
  job.train.precision = "fp8";
  job.train.fp8.recipe = "delayed";
  Folder folder;
  EXPECT_THROW(run_job(job, folder.path(), 1), UsageError);
  job.train.fp8.recipe = "current";
  job.model.ffn = 100;
  EXPECT_THROW(run_job(job, folder.path(), 1), UsageError);
  job.train.precision = "fp16";
  EXPECT_THROW(run_job(job, folder.path(), 1), UsageError);
}

}  // namespace
}  // namespace railyard::test
