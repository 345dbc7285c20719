// Run directories: names, locks and their takeover, refused changes, numbering of starts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "launch/run_directory.hpp"
#include "runtime/base/error.hpp"
#include "tests/launch/temporary_folder.hpp"

namespace railyard::launch {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

template <class Function>
std::string usage_error(Function&& function) {
  try {
    function();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

Json job(int layers = 2, int seed = 1) {
  return Json{{"name", "first"},
              {"model", {{"layers", layers}, {"hidden", 64}}},
              {"data", {{"text", "a.txt"}, {"cache", "here"}}},
              {"parallel", {{"tp", 1}}},
              {"train", {{"seed", seed}, {"global_batch", 8}, {"micro_batch", 1}, {"iterations", 10}}}};
}

TEST(RunDirectory, IsNamedAfterTheJobAndTheArrayTask) {
  EXPECT_EQ(choose_run_directory({}, "gpt", {}, "/w"), "/w/runs/gpt");
  EXPECT_EQ(choose_run_directory({}, "gpt", 3, "/w"), "/w/runs/gpt-3");
  EXPECT_EQ(choose_run_directory("there", "gpt", 3, "/w"), "/w/there");
  EXPECT_EQ(choose_run_directory("/abs/x/../y", "gpt", {}, "/w"), "/abs/y");
  EXPECT_THAT(usage_error([] { (void)choose_run_directory({}, "../up", {}, "/w"); }), HasSubstr("../up"));
  EXPECT_THAT(usage_error([] { (void)choose_run_directory({}, "", {}, "/w"); }), HasSubstr("name"));
}

TEST(RunDirectory, ListsWhatMayNotChange) {
  EXPECT_THAT(incompatible_changes(job(), job()), ElementsAre());
  EXPECT_THAT(incompatible_changes(job(2, 1), job(4, 7)), ElementsAre("model.layers: 2 -> 4", "train.seed: 1 -> 7"));
  Json other = job();
  other["data"]["cache"] = "elsewhere";
  other["parallel"]["tp"] = 8;
  other["train"]["iterations"] = 99;
  other["train"]["micro_batch"] = 4;
  EXPECT_THAT(incompatible_changes(job(), other), ElementsAre());
  other["data"]["text"] = "b.txt";
  other["train"]["global_batch"] = 16;
  EXPECT_THAT(incompatible_changes(job(), other),
              ElementsAre("data.text: \"a.txt\" -> \"b.txt\"", "train.global_batch: 8 -> 16"));
}

TEST(RunDirectory, MayBeChangedUntilItHasTrained) {
  const TemporaryFolder folder;
  { const RunDirectory run(folder.path() / "r", job(2), "one"); }
  { const RunDirectory run(folder.path() / "r", job(4), "two"); }
  EXPECT_EQ(read_file(folder.path() / "r/job.lua"), "two");
  std::ofstream(folder.path() / "r/metrics.jsonl") << "{}\n";
  EXPECT_THAT(usage_error([&] { const RunDirectory run(folder.path() / "r", job(2), "three"); }),
              AllOf(HasSubstr("model.layers: 4 -> 2"), HasSubstr("--run-dir")));
  EXPECT_EQ(read_file(folder.path() / "r/job.lua"), "two");
}

TEST(RunDirectory, CountsItsStarts) {
  const TemporaryFolder folder;
  {
    RunDirectory run(folder.path() / "r", job(), "");
    EXPECT_EQ(run.start(), 1);
    run.write_placement(Json::object());
    EXPECT_EQ(run.next_start(), 2);
    run.write_placement(Json::object());
  }
  EXPECT_TRUE(fs::exists(folder.path() / "r/placement-2.json"));
  const RunDirectory again(folder.path() / "r", job(), "");
  EXPECT_EQ(again.start(), 3);
}

TEST(RunDirectory, NeedsAPlaceToWrite) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "file") << "x";
  EXPECT_THAT(usage_error([&] { const RunDirectory run(folder.path() / "file/r", job(), ""); }),
              AllOf(HasSubstr("file/r"), HasSubstr("--run-dir")));
}

TEST(RunLock, IsHeldByOneAtATime) {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "lock";
  {
    const RunLock first(file);
    const std::string message = usage_error([&] { const RunLock second(file); });
    EXPECT_THAT(message, AllOf(HasSubstr("in use by"), HasSubstr("process " + std::to_string(getpid())),
                               HasSubstr(folder.path().string())));
  }
  EXPECT_FALSE(fs::exists(file));
  const RunLock third(file);
  EXPECT_EQ(third.taken_from(), "");
}

// A process that takes the lock and is killed with it.
TEST(RunLock, IsTakenOverFromADeadProcess) {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "lock";
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const RunLock held(file);
    (void)!write(ready[1], "x", 1);
    pause();
    _exit(0);
  }
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_THAT(usage_error([&] { const RunLock mine(file); }), HasSubstr("process " + std::to_string(child)));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  const RunLock mine(file);
  EXPECT_THAT(mine.taken_from(), HasSubstr("process " + std::to_string(child)));
}

// What a record alone tells, as on a file system without locks between hosts.
TEST(RunLock, JudgesAnotherHostByItsHeartbeat) {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "lock";
  LockOwner other = LockOwner::self();
  other.host = "elsewhere";
  other.boot = "another";
  std::ofstream(file) << other.to_json().dump();
  EXPECT_THAT(usage_error([&] { const RunLock mine(file); }), HasSubstr("elsewhere"));
  const auto old = fs::last_write_time(file) - std::chrono::seconds(61);
  fs::last_write_time(file, old);
  const RunLock mine(file);
  EXPECT_THAT(mine.taken_from(), HasSubstr("elsewhere"));
}

TEST(RunLock, IsTakenOverByARestartOfTheSameSlurmJob) {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "lock";
  LockOwner other = LockOwner::self();
  other.host = "elsewhere";
  other.job = "17";
  other.restart = 0;
  std::ofstream(file) << other.to_json().dump();
  setenv("SLURM_JOB_ID", "17", 1);
  setenv("SLURM_RESTART_COUNT", "1", 1);
  {
    const RunLock mine(file);
    EXPECT_THAT(mine.taken_from(), HasSubstr("elsewhere"));
  }
  unsetenv("SLURM_RESTART_COUNT");
  std::ofstream(file) << other.to_json().dump();
  EXPECT_THAT(usage_error([&] { const RunLock mine(file); }), HasSubstr("Slurm job 17"));
  unsetenv("SLURM_JOB_ID");
}

TEST(RunLock, SurvivesATornRecord) {
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "lock") << "{\"owner\":\"an";
  const RunLock mine(folder.path() / "lock");
  EXPECT_EQ(LockOwner::from_json(read_json_file(folder.path() / "lock")).pid, getpid());
}

TEST(RunLock, BeatsWhileItIsHeld) {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "lock";
  const RunLock mine(file, {.heartbeat = 0.05, .dead = 1.0});
  fs::last_write_time(file, fs::last_write_time(file) - std::chrono::seconds(100));
  const auto old = fs::last_write_time(file);
  for (int i = 0; i < 100 && fs::last_write_time(file) == old; ++i) usleep(20000);
  EXPECT_GT(fs::last_write_time(file), old);
}

}  // namespace
}  // namespace railyard::launch
