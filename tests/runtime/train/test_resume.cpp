// A stopped run goes on bit for bit where it was; in another layout it goes on with the same tensors.
#include <gtest/gtest.h>

#include "tests/runtime/train/job_fixture.hpp"

namespace railyard::test {
namespace {

TEST(Resume, ContinuesBitForBit) {
  JobSpec job = gpt_job();
  job.parallel.tp = 2;
  job.parallel.pp = 2;
  job.parallel.dp = 2;
  job.train.optimizer.distributed = true;
  job.eval.every = 5;
  job.eval.batches = 2;
  Folder whole, halves;
  const RunOutcome undisturbed = run_job(job, whole.path(), 8);
  const RunOutcome first = run_job(job, halves.path(), 8, 9);
  EXPECT_EQ(first.result.end, TrainEnd::kStopped);
  EXPECT_EQ(first.result.step, 9);
  const RunOutcome second = run_job(job, halves.path(), 8);
  EXPECT_EQ(second.result.end, TrainEnd::kDone);
  ASSERT_EQ(first.steps.size() + second.steps.size(), undisturbed.steps.size());
  for (size_t i = 0; i < undisturbed.steps.size(); ++i) {
    const StepRecord& record = i < first.steps.size() ? first.steps[i] : second.steps[i - first.steps.size()];
    EXPECT_EQ(record.step, undisturbed.steps[i].step);
    EXPECT_EQ(record.loss, undisturbed.steps[i].loss) << "step " << record.step;
    EXPECT_EQ(record.grad_norm, undisturbed.steps[i].grad_norm);
    EXPECT_EQ(record.lr, undisturbed.steps[i].lr);
  }
  ASSERT_EQ(undisturbed.evaluations.size(), 5U);
  EXPECT_EQ(undisturbed.evaluations.back().valid_loss, second.evaluations.back().valid_loss);
  EXPECT_EQ(read_checkpoint(whole.path(), 20), read_checkpoint(halves.path(), 20));
}

TEST(Resume, AnotherLayoutLoadsTheSameTensors) {
  for (const JobSpec& base : {gpt_job(), llama_job()}) {
    JobSpec job = base;
    job.parallel.tp = 2;
    job.parallel.dp = 2;
    job.parallel.sequence_parallel = true;
    job.train.optimizer.distributed = true;
    Folder whole;
    const RunOutcome undisturbed = run_job(base, whole.path(), 1);
    Folder saved;
    run_job(job, saved.path(), 4, 10);
    for (const auto& [tp, pp, dp, distributed] :
         {std::tuple{1, 1, 1, false}, {1, 4, 2, true}, {4, 1, 1, false}, {2, 2, 2, true}, {1, 2, 4, false}}) {
      Folder folder;
      std::filesystem::copy(saved.path(), folder.path(), std::filesystem::copy_options::recursive);
      JobSpec other = base;
      other.parallel.tp = tp;
      other.parallel.pp = pp;
      other.parallel.dp = dp;
      other.train.optimizer.distributed = distributed;
      const RunOutcome run = run_job(other, folder.path(), tp * pp * dp);
      ASSERT_EQ(run.steps.size(), 10U);
      for (size_t i = 0; i < run.steps.size(); ++i)
        EXPECT_NEAR(run.steps[i].loss / undisturbed.steps[i + 10].loss, 1.0, 1e-5)
            << base.name << " step " << run.steps[i].step;
    }
  }
}

TEST(Resume, RefusesOtherData) {
  JobSpec job = gpt_job();
  job.train.iterations = 2;
  Folder folder;
  run_job(job, folder.path(), 1);
  job.train.iterations = 4;
  job.train.seed = 8;
  EXPECT_THROW(run_job(job, folder.path(), 1), UsageError);
}

TEST(Resume, MustNeedsACheckpoint) {
  JobSpec job = gpt_job();
  job.checkpoint.resume = "must";
  Folder folder;
  EXPECT_THROW(run_job(job, folder.path(), 1), UsageError);
}

TEST(NotFinite, StopsBeforeTheUpdateAndSavesNothing) {
  JobSpec job = gpt_job();
  job.train.optimizer.clip_grad = 0.0;
  job.train.lr = {.schedule = "constant", .peak = 1e30, .min = 0.0, .init = 0.0, .decay_iterations = 20};
  job.parallel.dp = 2;
  Folder folder;
  try {
    run_job(job, folder.path(), 2);
    FAIL() << "a diverging run ended well";
  } catch (const RunError& error) {
    EXPECT_NE(std::string(error.what()).find("is not finite"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("samples"), std::string::npos) << error.what();
  }
  EXPECT_TRUE(list_steps(folder.path() / "ckpt").empty());
}

}  // namespace
}  // namespace railyard::test
