// Batch scripts: options, quoting, sweeps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/process.hpp"
#include "launch/slurm/submission.hpp"
#include "runtime/base/error.hpp"

namespace railyard::launch {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

lua::EvaluatedJob job(const std::vector<lua::SbatchOption>& options) {
  lua::EvaluatedJob result;
  result.spec.name = "first train";
  result.sbatch = options;
  return result;
}

Submission submission() {
  Submission result;
  result.program = "/opt/railyard";
  result.job_file = "/home/a b/job.lua";
  result.log_folder = "/runs/x/log";
  return result;
}

TEST(Submission, KeepsTheJobsOptionsAndAddsWhatIsMissing) {
  const auto script = batch_script(submission(), job({{"nodes", "2"}, {"exclusive", {}}}));
  EXPECT_THAT(script, HasSubstr("#SBATCH --job-name='first train'\n"));
  EXPECT_THAT(script, HasSubstr("#SBATCH --output=/runs/x/log/slurm-%j.out\n"));
  EXPECT_THAT(script, HasSubstr("#SBATCH --open-mode=append\n"));
  EXPECT_THAT(script, HasSubstr("#SBATCH --nodes=2\n#SBATCH --exclusive\n"));
  EXPECT_THAT(script, HasSubstr("exec /opt/railyard run '/home/a b/job.lua'\n"));
  EXPECT_THAT(batch_script(submission(), job({{"output", "mine.out"}})), Not(HasSubstr("slurm-%j.out")));
}

TEST(Submission, QuotesForTheShell) {
  auto request = submission();
  request.program = "/bin/echo";
  request.sets = {"name=it's $HOME"};
  const auto result = run_command({"bash"}, 10, nullptr, batch_script(request, job({})));
  EXPECT_EQ(result.output, "run /home/a b/job.lua --set name=it's $HOME\n");
}

TEST(Submission, SweepsAreAnArray) {
  EXPECT_THAT(expand_sweeps({"a=1,2", "b=x"}), ElementsAre(ElementsAre("a=1", "b=x"), ElementsAre("a=2", "b=x")));
  EXPECT_THROW((void)expand_sweeps({"a="}), UsageError);
  EXPECT_THROW((void)expand_sweeps({"a"}), UsageError);
  auto request = submission();
  request.program = "/bin/echo";
  request.sweeps = {"train.seed=1,2,3"};
  const auto script = batch_script(request, job({}));
  EXPECT_THAT(script, HasSubstr("#SBATCH --array=0-2\n"));
  Environment environment = current_environment();
  environment["SLURM_ARRAY_TASK_ID"] = "1";
  EXPECT_THAT(run_command({"bash"}, 10, &environment, script).output, HasSubstr("--set train.seed=2\n"));
}

TEST(Submission, WarnsOfWhatWillHurt) {
  EXPECT_THAT(submission_warnings(job({{"time", "1:00:00"}})), ElementsAre(HasSubstr("--signal=B:USR1@120")));
  EXPECT_THAT(submission_warnings(job({{"time", "1:00:00"}, {"signal", "USR1@60"}})),
              ElementsAre(HasSubstr("--signal=B:USR1@60")));
  EXPECT_THAT(submission_warnings(job({{"gpus-per-task", "1"}})), ElementsAre(HasSubstr("--gpus-per-node")));
  EXPECT_EQ(requested_ranks(job({{"nodes", "2"}, {"gpus-per-node", "h100:8"}})), 16);
  EXPECT_FALSE(requested_ranks(job({{"nodes", "2-4"}})));
}

}  // namespace
}  // namespace railyard::launch
