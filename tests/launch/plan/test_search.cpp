// The search against looking at everything, and the worst rank against all ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/plan/report.hpp"
#include "launch/plan/search.hpp"
#include "runtime/base/error.hpp"
#include "tests/launch/plan/jobs.hpp"

namespace railyard::launch {
namespace {

using namespace testing_jobs;

constexpr const char* kTrain =
    "micro_batch = 1, global_batch = 64, precision = \"bf16\", optimizer = { distributed = true }";

TEST(Search, FindsWhatLookingAtEverythingFinds) {
  const Cluster cluster = synthetic_cluster(h100_site(), 2, 1);
  const Planner planner(cluster, std::nullopt, 1);
  const JobSpec job = job_of("models.llama3_8b { seq_length = 4096 }", "", kTrain);
  const SearchResult result = search_layouts(planner, job, 16, 5);
  ASSERT_EQ(result.ranked.size(), 5U);
  double best = 1e9;
  int fitting = 0;
  for (const int tp : {1, 2, 4, 8})
    for (const int pp : {1, 2, 4, 8, 16})
      for (const int vpp : {1, 2, 4, 8, 16})
        for (const int micro : {1, 2, 4, 8, 16, 32, 64})
          for (const bool sequence : {false, true}) {
            JobSpec one = job;
            one.parallel.tp = tp;
            one.parallel.pp = pp;
            one.parallel.vpp = vpp;
            one.parallel.sequence_parallel = sequence;
            one.train.micro_batch = micro;
            if (16 % (tp * pp) != 0 || (vpp > 1 && (pp == 1 || 32 % (pp * vpp) != 0))) continue;
            try {
              const auto plan = planner.plan(one, Layout::resolve(one.parallel, 16));
              if (*plan.memory.fits()) {
                best = std::min(best, plan.time->step_s);
                ++fitting;
              }
            } catch (const UsageError&) {
              continue;  // the batch does not divide, and the like
            }
          }
  EXPECT_GT(fitting, 20);
  EXPECT_DOUBLE_EQ(result.ranked[0].time->step_s, best);
  for (std::size_t i = 1; i < result.ranked.size(); ++i)
    EXPECT_GE(result.ranked[i].time->step_s, result.ranked[i - 1].time->step_s);
  int left_out = 0;
  for (const auto& entry : result.left_out) left_out += entry.count;
  EXPECT_GE(left_out + 5, result.considered);
}

TEST(Search, SaysWhyNothingFits) {
  const Cluster cluster = synthetic_cluster(h100_site(), 1, 1);
  const Planner planner(cluster, std::nullopt, 1);
  const JobSpec job = job_of("models.llama3_405b {}", "", kTrain);
  const SearchResult result = search_layouts(planner, job, 8, 10);
  EXPECT_TRUE(result.ranked.empty());
  const std::string text = search_text(result, {});
  EXPECT_THAT(text, testing::HasSubstr("no layout fits"));
  EXPECT_THAT(text, testing::HasSubstr("do not fit"));
}

TEST(Memory, TheWorstRankIsAmongTheStagesThatAreLookedAt) {
  const Cluster cluster = synthetic_cluster(h100_site(), 4, 1);
  for (const char* model :
       {"models.llama3_8b { seq_length = 2048 }", "models.llama3_8b { seq_length = 2048, layers = 33 }",
        "models.gpt2_124m { layers = 16, vocab = 250000 }", "models.llama2_7b { layers = 34 }"})
    for (const char* parallel :
         {"pp = 4", "pp = 8", "pp = 16, tp = 1", "tp = 4, pp = 8, sequence_parallel = true", "pp = 2"}) {
      const JobSpec job = job_of(model, parallel, kTrain);
      const Layout layout = Layout::resolve(job.parallel, 32);
      const MemoryFigures worst = worst_memory(job, layout, cluster);
      for (int stage = 0; stage < layout.pp; ++stage)
        EXPECT_LE(stage_memory(job, layout, cluster, stage).total_gib, worst.total_gib) << model << parallel << stage;
    }
}

TEST(Memory, PartsAddUpAndShrinkWithTheLayout) {
  const Cluster cluster = synthetic_cluster(h100_site(), 1, 1);
  const JobSpec job = job_of("models.llama3_8b {}", "tp = 8, sequence_parallel = true", kTrain);
  const MemoryFigures m = worst_memory(job, Layout::resolve(job.parallel, 8), cluster);
  EXPECT_NEAR(m.weights_gib + m.grads_gib + m.optimizer_gib + m.activations_gib + m.other_gib, m.total_gib, 1e-9);
  EXPECT_NEAR(m.weights_gib, 8.03e9 / 8 * 2 / (1 << 30), 0.01);
  EXPECT_NEAR(m.grads_gib, 2 * m.weights_gib, 0.01);
  EXPECT_NEAR(m.optimizer_gib, 5 * m.weights_gib, 0.05);  // dp 1: rests of master weights and two moments
}

TEST(PlanJson, IsAsTheContractSays) {
  const Cluster cluster = synthetic_cluster(h100_site(), 1, 1);
  const Planner planner(cluster, std::nullopt, 1);
  const JobSpec job = job_of("models.llama3_8b {}", "tp = 8, sequence_parallel = true", kTrain);
  const Planner::Plan plan = planner.plan(job, Layout::resolve(job.parallel, 8));
  const Json document = plan_json({planner, plan, nullptr, {"careful"}});
  std::vector<std::string> keys;
  for (const auto& [key, value] : document.items()) keys.push_back(key);
  EXPECT_EQ(keys, (std::vector<std::string>{"schema", "layout", "gpus", "memory", "time", "tflops_per_gpu", "mfu",
                                            "links", "map", "warnings"}));
  EXPECT_EQ(document["warnings"][0], "careful");
  for (const char* key : {"rank", "stage", "weights_gib", "grads_gib", "optimizer_gib", "activations_gib", "other_gib",
                          "total_gib", "limit_gib", "fits"})
    EXPECT_TRUE(document["memory"].contains(key)) << key;
  for (const char* key : {"step_s", "compute_s", "exposed_comm_s", "bubble_s"})
    EXPECT_TRUE(document["time"].contains(key)) << key;
}

}  // namespace
}  // namespace railyard::launch
