// Activations that are computed again give the same bits as activations that are kept, and take less memory.
#include <gtest/gtest.h>

#include "runtime/base/error.hpp"
#include "runtime/model/rank_model.hpp"
#include "tests/runtime/train/job_fixture.hpp"

namespace railyard::test {
namespace {

TEST(Recompute, GivesTheSameBitsInLessMemory) {
  struct Case {
    const char* method;
    std::int64_t layers;
    int pp;
  };
  for (JobSpec job : {gpt_job(), llama_job()}) {
    job.train.iterations = 4;
    for (const Case& c :
         {Case{"uniform", 1, 1}, {"uniform", 2, 1}, {"uniform", 5, 1}, {"block", 2, 1}, {"uniform", 2, 2}}) {
      job.parallel.pp = c.pp;
      job.train.recompute = {};
      Folder kept_folder, again_folder;
      const RunOutcome kept = run_job(job, kept_folder.path(), c.pp);
      JobSpec again_job = job;
      again_job.train.recompute = {.granularity = "full", .method = c.method, .layers = c.layers};
      const RunOutcome again = run_job(again_job, again_folder.path(), c.pp);
      ASSERT_EQ(kept.steps.size(), again.steps.size());
      for (std::size_t i = 0; i < kept.steps.size(); ++i) {
        EXPECT_EQ(kept.steps[i].loss, again.steps[i].loss) << job.name << " " << c.method << " " << c.layers;
        EXPECT_EQ(kept.steps[i].grad_norm, again.steps[i].grad_norm) << job.name << " " << c.method << " " << c.layers;
      }
      const Layout layout = Layout::resolve(job.parallel, c.pp);
      const auto bytes = [&](const JobSpec& spec) {
        return plan_memory(spec, layout, layout.coordinate(0), MemoryTarget{}).bytes(MemoryKind::kActivations);
      };
      EXPECT_LT(bytes(again_job), bytes(job)) << job.name << " " << c.method << " " << c.layers;
    }
  }
}

TEST(Recompute, SelectiveIsRefused) {
  JobSpec job = gpt_job();
  job.train.recompute.granularity = "selective";
  Folder folder;
  EXPECT_THROW(run_job(job, folder.path(), 1), UsageError);
}

}  // namespace
}  // namespace railyard::test
