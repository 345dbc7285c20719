// A stopped run goes on bit for bit where it was; in another layout it goes on with the same tensors.
#include <gtest/gtest.h>

#include <cmath>

#include "runtime/train/collectives.hpp"
#include "runtime/train/rank_state.hpp"
#include "runtime/train/training_state.hpp"
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

struct Arrangement {
  int tp, pp, dp, vpp;
  bool sequence_parallel, distributed;
};

JobSpec arranged(JobSpec job, const Arrangement& layout) {
  job.parallel.tp = layout.tp;
  job.parallel.pp = layout.pp;
  job.parallel.dp = layout.dp;
  job.parallel.vpp = layout.vpp;
  job.parallel.sequence_parallel = layout.sequence_parallel;
  job.train.optimizer.distributed = layout.distributed;
  return job;
}

std::vector<Arrangement> arrangements_of_eight() {
  std::vector<Arrangement> all;
  for (int tp = 1; tp <= 8; tp *= 2)
    for (int pp = 1; tp * pp <= 8; pp *= 2)
      for (const bool sequence_parallel : {false, true})
        for (const bool distributed : {false, true})
          if (const int dp = 8 / tp / pp; (tp > 1 || !sequence_parallel) && (dp > 1 || !distributed))
            all.push_back({tp, pp, dp, 1, sequence_parallel, distributed});
  all.push_back({2, 2, 2, 2, true, true});
  return all;
}

// Loads step `step` of `from` into the ranks of a layout, and saves what they hold to `to`.
void load_and_save(const JobSpec& job, const std::filesystem::path& from, std::int64_t step,
                   const std::filesystem::path& to) {
  const Layout layout = Layout::resolve(job.parallel, 8);
  run_threads(8, [&](Communicator& communicator) {
    const auto backend = make_cpu_backend({.threads = 1});
    const ParallelGroups groups = ParallelGroups::make(layout, communicator);
    RankState state(job, groups, MemoryTarget::of(*backend));
    state.take(*backend, job.train.seed + 1);  // other initial weights
    CheckpointReader reader(step_folder(from / "ckpt", step));
    load_training_state(reader, state.optimizer, *backend, true);
    state.optimizer.wait_parameters(-1);
    CommunicatorCollectives collectives(communicator);
    CheckpointWriter writer(collectives, to / "ckpt", {});
    CheckpointInfo info;
    info.step = step;
    writer.begin(info);
    save_training_state(writer, state.optimizer, groups, *backend);
    writer.finish(false);
    writer.publish();
  });
}

TEST(Resume, AnyOtherLayoutHoldsTheSameTensorsAndGoesOnAlike) {
  JobSpec qwen = llama_job();
  qwen.name = "qwen";
  qwen.model.qk_norm = true;
  for (const JobSpec& base : {gpt_job(), qwen}) {
    Folder whole, saved;
    const RunOutcome undisturbed = run_job(base, whole.path(), 1);
    run_job(arranged(base, {2, 2, 2, 1, true, true}), saved.path(), 8, 10);
    const auto tensors = read_checkpoint(saved.path(), 10);
    double largest = 0.0;
    for (const Arrangement& layout : arrangements_of_eight()) {
      const JobSpec other = arranged(base, layout);
      Folder copy, folder;
      load_and_save(other, saved.path(), 10, copy.path());
      EXPECT_EQ(read_checkpoint(copy.path(), 10), tensors);
      std::filesystem::copy(saved.path(), folder.path(), std::filesystem::copy_options::recursive);
      const RunOutcome run = run_job(other, folder.path(), 8);
      ASSERT_EQ(run.steps.size(), 10U);
      for (size_t i = 0; i < run.steps.size(); ++i) {
        largest = std::max(largest, std::abs(run.steps[i].loss / undisturbed.steps[i + 10].loss - 1.0));
        EXPECT_NEAR(run.steps[i].loss / undisturbed.steps[i + 10].loss, 1.0, 1e-5)
            << base.name << " step " << run.steps[i].step << " tp " << layout.tp << " pp " << layout.pp << " dp "
            << layout.dp;
      }
    }
    std::printf("%s: resumed in %zu layouts of 8 ranks, largest relative difference of a loss %.1e\n",
                base.name.c_str(), arrangements_of_eight().size(), largest);
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
