// Batch scripts: options, quoting, sweeps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/process.hpp"
#include "launch/saves.hpp"
#include "launch/slurm/submission.hpp"
#include "runtime/base/error.hpp"
#include "tests/launch/temporary_folder.hpp"

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

TEST(Submission, TakesFromTheSiteWhatTheJobLeavesOpen) {
  auto request = submission();
  request.site =
      Json{{"slurm", {{"partition", "train"}, {"account", "nlp"}, {"qos", nullptr}, {"modules", Json::array()}}}};
  const auto script = batch_script(request, job({{"account", "mine"}}));
  EXPECT_THAT(script, HasSubstr("#SBATCH --partition=train\n"));
  EXPECT_THAT(script, HasSubstr("#SBATCH --account=mine\n"));
  EXPECT_THAT(script, Not(HasSubstr("nlp")));
  EXPECT_THAT(script, Not(HasSubstr("qos")));
  EXPECT_THAT(script, Not(HasSubstr("module")));
}

TEST(Submission, LoadsTheSitesModules) {
  auto request = submission();
  request.program = "/bin/echo";
  request.site = Json{{"slurm", {{"modules", {"cuda/13.0", "a b"}}}}};
  const auto script = batch_script(request, job({}));
  const std::string shell = "module() { printf '%s|' \"$@\"; }\nexport -f module\nbash\n";
  const auto loaded = run_command({"bash", "-c", shell}, 10, nullptr, script);
  EXPECT_EQ(loaded.output, "load|cuda/13.0|a b|run /home/a b/job.lua\n");
  // A module that cannot be loaded ends the job at once, with a line.
  const auto refused =
      run_command({"bash", "-c", "module() { return 1; }\nexport -f module\nbash\n"}, 10, nullptr, script);
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.errors, HasSubstr("slurm.modules"));
  EXPECT_EQ(refused.output, "");
}

TEST(Submission, SparesNeedNoKill) {
  auto spare = job({});
  spare.spec.run.spare_nodes = 1;
  EXPECT_THAT(batch_script(submission(), spare), HasSubstr("#SBATCH --no-kill\n"));
  EXPECT_THAT(batch_script(submission(), job({})), Not(HasSubstr("--no-kill")));
}

TEST(Submission, RefusesGpusThatTheSiteDoesNotHave) {
  const Json site{{"node", {{"gpu", "H100-SXM5-80GB"}}},
                  {"partitions", {{"old", {{"node", {{"gpu", "A100-SXM4-40GB"}}}}}}}};
  EXPECT_NO_THROW(check_gpu_kind(job({{"gpus-per-node", "h100:8"}}), {}, site));
  EXPECT_NO_THROW(check_gpu_kind(job({{"gres", "gpu:a100:4"}}), {}, site));
  EXPECT_NO_THROW(check_gpu_kind(job({{"gpus-per-node", "8"}}), {}, site));
  EXPECT_NO_THROW(check_gpu_kind(job({{"gres", "nvme:1"}}), {}, site));
  EXPECT_THROW(check_gpu_kind(job({{"gpus-per-node", "b300:8"}}), {}, site), UsageError);
  EXPECT_THROW(check_gpu_kind(job({{"gpus-per-node", "h100:8"}}), {"--gpus-per-node=b300:8"}, site), UsageError);
  EXPECT_NO_THROW(check_gpu_kind(job({{"gpus-per-node", "b300:8"}}), {}, Json{{"node", {{"gpu", nullptr}}}}));
}

TEST(Submission, ReadsTimeLimitsAsSbatchDoes) {
  EXPECT_EQ(parse_time_limit("90"), 5400.0);
  EXPECT_EQ(parse_time_limit("1:30"), 90.0);
  EXPECT_EQ(parse_time_limit("1:30:15"), 5415.0);
  EXPECT_EQ(parse_time_limit("2-0"), 172800.0);
  EXPECT_EQ(parse_time_limit("2-1:30"), 178200.0);
  EXPECT_EQ(parse_time_limit("0-0:0:7"), 7.0);
  for (const char* text : {"", "x", "1:2:3:4", "-1", "UNLIMITED", "1-", "1::2"})
    EXPECT_FALSE(parse_time_limit(text)) << text;
  EXPECT_EQ(requested_time(job({{"time", "10"}}), {"--time=20"}), 1200.0);
}

TEST(Submission, WarnsOfAShortLead) {
  const TemporaryFolder folder;
  const auto run = folder.path();
  std::filesystem::create_directories(run / "log");
  const auto asks = job({{"signal", "B:USR1@120"}});
  EXPECT_FALSE(lead_warning(asks, run));  // nothing is known yet
  record_save(run, 100, 40.0);
  EXPECT_FALSE(lead_warning(asks, run));
  record_save(run, 200, 100.0);
  EXPECT_THAT(lead_warning(asks, run).value_or(""), HasSubstr("use @300"));
  for (int i = 0; i < 10; ++i) record_save(run, 300 + i, 1.0);
  EXPECT_FALSE(lead_warning(asks, run));  // the last ten count
}

}  // namespace
}  // namespace railyard::launch
