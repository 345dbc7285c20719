// Any layout trains the same model: losses, gradient norms and initial weights do not depend on how ranks are arranged.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/runtime/train/job_fixture.hpp"

namespace railyard::test {
namespace {

struct LayoutCase {
  int tp, pp, dp;
  bool sequence_parallel, distributed;
  int vpp = 1;
};

JobSpec with_layout(JobSpec job, const LayoutCase& layout) {
  job.parallel.tp = layout.tp;
  job.parallel.pp = layout.pp;
  job.parallel.dp = layout.dp;
  job.parallel.vpp = layout.vpp;
  job.parallel.sequence_parallel = layout.sequence_parallel;
  job.train.optimizer.distributed = layout.distributed;
  return job;
}

std::vector<LayoutCase> all_layouts() {
  std::vector<LayoutCase> cases;
  for (const int ranks : {1, 2, 4, 8})
    for (int tp = 1; tp <= ranks; tp *= 2)
      for (int pp = 1; tp * pp <= ranks; pp *= 2) {
        const int dp = ranks / tp / pp;
        for (const bool sp : {false, true})
          for (const bool distributed : {false, true})
            if ((tp > 1 || !sp) && (dp > 1 || !distributed) && tp * pp * dp == ranks)
              cases.push_back({tp, pp, dp, sp, distributed});
      }
  cases.push_back({1, 2, 1, false, false, 2});
  cases.push_back({2, 2, 2, true, true, 2});
  return cases;
}

// A test of one model over the layouts; prints the table.
void expect_layouts_agree(const JobSpec& job, const std::vector<LayoutCase>& layouts = all_layouts()) {
  Folder reference_folder;
  JobSpec first = job;
  first.checkpoint.every = 0;
  const RunOutcome reference = run_job(first, reference_folder.path(), 1);
  ASSERT_EQ(reference.steps.size(), 20U);
  EXPECT_LT(reference.steps.back().loss, reference.steps.front().loss);
  std::printf("%-6s tp pp dp sp do vpp | largest relative difference of loss, gradient norm\n", job.name.c_str());
  for (const LayoutCase& layout : layouts) {
    Folder folder;
    const RunOutcome run = run_job(with_layout(job, layout), folder.path(), layout.tp * layout.pp * layout.dp);
    ASSERT_EQ(run.steps.size(), reference.steps.size());
    double loss = 0.0, norm = 0.0;
    for (size_t i = 0; i < run.steps.size(); ++i) {
      loss = std::max(loss, std::abs(run.steps[i].loss / reference.steps[i].loss - 1.0));
      norm = std::max(norm, std::abs(run.steps[i].grad_norm / reference.steps[i].grad_norm - 1.0));
    }
    std::printf("       %2d %2d %2d %2d %2d %3d | %.1e %.1e\n", layout.tp, layout.pp, layout.dp,
                layout.sequence_parallel, layout.distributed, layout.vpp, loss, norm);
    EXPECT_LT(loss, 1e-5);
    EXPECT_LT(norm, 1e-4);
  }
}

TEST(Layouts, GptTrainsTheSameModel) { expect_layouts_agree(gpt_job()); }
TEST(Layouts, LlamaTrainsTheSameModel) { expect_layouts_agree(llama_job()); }

// Head norms, whose gradients come from all tp ranks, a window, and documents that do not see each other.
TEST(Layouts, QwenWithDocumentsApartTrainsTheSameModel) {
  JobSpec job = llama_job();
  job.name = "qwen";
  job.model.qk_norm = true;
  job.model.window = 7;
  job.model.vocab = 259;
  job.data.tokenizer = TokenizerSpec{"bytes", ""};
  job.data.reset_attention_mask = job.data.reset_position_ids = job.data.eod_mask_loss = true;
  std::vector<LayoutCase> split;
  for (const LayoutCase& layout : all_layouts())
    if (layout.tp > 1 && layout.tp * layout.pp * layout.dp == 8) split.push_back(layout);
  expect_layouts_agree(job, split);
}

// Stopping right after the first step leaves a checkpoint whose weights are one tiny update away from the initial ones;
// with a learning rate of zero they are the initial ones.
TEST(Layouts, InitialWeightsAreBitIdentical) {
  for (JobSpec job : {gpt_job(), llama_job()}) {
    job.train.iterations = 1;
    job.train.lr = {.schedule = "constant", .peak = 0.0, .min = 0.0, .init = 0.0, .decay_iterations = 1};
    job.train.optimizer.weight_decay = 0.0;
    Folder reference_folder;
    run_job(job, reference_folder.path(), 1);
    const auto reference = read_checkpoint(reference_folder.path(), 1);
    for (const LayoutCase& layout : all_layouts()) {
      Folder folder;
      run_job(with_layout(job, layout), folder.path(), layout.tp * layout.pp * layout.dp);
      const auto weights = read_checkpoint(folder.path(), 1);
      for (const auto& [name, values] : reference) {
        if (name.starts_with("exp_avg")) continue;
        ASSERT_TRUE(weights.contains(name)) << name;
        EXPECT_EQ(weights.at(name), values) << name;
      }
      EXPECT_EQ(weights.size(), reference.size());
    }
  }
}

}  // namespace
}  // namespace railyard::test
