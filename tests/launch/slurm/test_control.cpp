// What scontrol and squeue print, and what follows for a requeue.
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>

#include "launch/slurm/control.hpp"
#include "tests/launch/temporary_folder.hpp"

namespace railyard::launch {
namespace {

const char* const kJob = R"(JobId=5 JobName=first
   JobState=RUNNING Reason=None Dependency=(null)
   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0
   PreemptEligibleTime=2026-01-01T00:00:00 PreemptTime=None
   Command=/home/a user/job.lua a b
   WorkDir=/home/a user
)";

TEST(Control, ReadsAJob) {
  const auto job = parse_job(kJob);
  EXPECT_EQ(job.at("JobState"), "RUNNING");
  EXPECT_EQ(job.at("Command"), "/home/a user/job.lua a b");
  EXPECT_EQ(job.at("WorkDir"), "/home/a user");
}

TEST(Control, FindsTheScriptBeforeItsArguments) {
  const TemporaryFolder folder;
  const auto script = folder.path() / "a job.lua";
  std::ofstream(script) << "";
  EXPECT_EQ(submitted_script({{"Command", script.string() + " x y"}}), script.string());
  EXPECT_FALSE(submitted_script({{"Command", "/no/such/file x"}}));
  EXPECT_FALSE(submitted_script({}));
}

TEST(Control, ReadsDurations) {
  EXPECT_EQ(parse_duration("1-02:03:04"), 93784.0);
  EXPECT_EQ(parse_duration("2:05"), 125.0);
  EXPECT_FALSE(parse_duration("UNLIMITED"));
  EXPECT_FALSE(parse_duration("INVALID"));
  EXPECT_FALSE(parse_duration(""));
}

TEST(Requeue, FollowsSignalStateAndPreemption) {
  auto job = parse_job(kJob);
  EXPECT_TRUE(should_requeue(job, SIGUSR1));
  EXPECT_FALSE(should_requeue(job, SIGTERM)) << "a person's scancel --signal=TERM";
  EXPECT_FALSE(should_requeue(job, 0)) << "train.exit_interval";
  job["PreemptTime"] = "2026-01-01T00:00:00";
  EXPECT_TRUE(should_requeue(job, 0));
  job["JobState"] = "CANCELLED";
  EXPECT_FALSE(should_requeue(job, SIGUSR1));
  job["JobState"] = "TIMEOUT";
  EXPECT_TRUE(should_requeue(job, SIGTERM));
  job["Requeue"] = "0";
  EXPECT_FALSE(should_requeue(job, SIGUSR1));
  EXPECT_FALSE(should_requeue({}, SIGUSR1));
}

}  // namespace
}  // namespace railyard::launch
