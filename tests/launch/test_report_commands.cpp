// railyard report and railyard status as a user runs them: exit codes, files, a live view on a pseudo-terminal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>

#include "launch/process.hpp"
#include "launch/run_lock.hpp"
#include "launch/run_sight.hpp"
#include "runtime/base/error.hpp"
#include "tests/launch/temporary_folder.hpp"

namespace railyard::launch {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const std::string kProgram = RAILYARD_BINARY_DIR "/railyard";

void write_text(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

void write_run(const fs::path& path) {
  write_text(path / "job.json", R"({"name": "tiny", "train": {"iterations": 4}})");
  write_text(path / "metrics.jsonl",
             "{\"step\":1,\"loss\":3.0,\"step_s\":0.5}\n{\"step\":2,\"loss\":2.0,\"step_s\":0.5}\n{\"step\":2,\"valid_"
             "loss\":2.5}\n");
}

// Runs the program in `folder`, with `bin` before everything else on PATH.
CommandResult railyard_in(const fs::path& folder, const std::string& arguments, const fs::path& bin = {}) {
  Environment environment = current_environment();
  environment["PATH"] = bin.empty() ? "/usr/bin:/bin" : bin.string() + ":/usr/bin:/bin";
  return run_command({"sh", "-c", "cd \"" + folder.string() + "\" && exec \"" + kProgram + "\" " + arguments}, 60,
                     &environment);
}

TEST(ReportCommand, WritesOnePageBesideTheRunOrWhereItIsTold) {
  const TemporaryFolder folder;
  write_run(folder.path() / "run");
  const CommandResult beside = railyard_in(folder.path(), "report run");
  EXPECT_EQ(beside.status, 0) << beside.errors;
  EXPECT_THAT(beside.output, HasSubstr("run/report.html: ended, 2 steps ("));
  EXPECT_GT(fs::file_size(folder.path() / "run/report.html"), 1000u);
  EXPECT_EQ(railyard_in(folder.path(), "report run -o page.html").status, 0);
  EXPECT_TRUE(fs::exists(folder.path() / "page.html"));
  EXPECT_THAT(railyard_in(folder.path(), "report run -o -").output, HasSubstr("</html>"));
  EXPECT_EQ(railyard_in(folder.path(), "report run -o /dev/null").status, 0);
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST(ReportCommand, RefusesWhatIsNoRunAndWhereNothingCanBeWritten) {
  const TemporaryFolder folder;
  write_run(folder.path() / "run");
  for (const char* arguments :
       {"report", "report none", "report .", "report run/job.json", "report run -o none/page.html", "report run -o run",
        "report run -o", "status none", "status .", "status run extra"}) {
    const CommandResult result = railyard_in(folder.path(), arguments);
    EXPECT_EQ(result.status, 2) << arguments;
    EXPECT_EQ(result.errors.rfind("railyard: ", 0), 0u) << result.errors;
    EXPECT_EQ(result.output, "");
  }
  EXPECT_EQ(railyard_in(folder.path(), "report run -o - >/dev/full").status, 1);
  for (const char* help : {"report --help", "status --help"})
    EXPECT_THAT(railyard_in(folder.path(), help).output, HasSubstr("Examples:"));
}

TEST(StatusCommand, ShowsOneRunOrAllBelowRuns) {
  const TemporaryFolder folder;
  EXPECT_EQ(railyard_in(folder.path(), "status").status, 2);
  write_run(folder.path() / "runs/a");
  const CommandResult one = railyard_in(folder.path(), "status");
  EXPECT_EQ(one.status, 0) << one.errors;
  EXPECT_THAT(one.output, HasSubstr("tiny  ended\n"));
  EXPECT_THAT(one.output, HasSubstr(" 50 %  step 2 of 4\n"));
  EXPECT_THAT(one.output, HasSubstr("valid loss  2.5000 at step 2\n"));
  EXPECT_EQ(one.output.find('\x1b'), std::string::npos);
  write_run(folder.path() / "runs/b");
  write_text(folder.path() / "runs/b/why.json", R"({"exit": 75, "detail": "stopped early with a checkpoint"})");
  const CommandResult all = railyard_in(folder.path(), "status");
  EXPECT_THAT(all.output, HasSubstr("  ended        step 2 of 4, loss 2.0000\n"));
  EXPECT_THAT(all.output, HasSubstr("  stopped      step 2 of 4, loss 2.0000\n"));
  EXPECT_THAT(railyard_in(folder.path() / "runs/b", "status").output,
              HasSubstr("why         stopped early with a checkpoint\n"));
}

TEST(StatusCommand, TellsALiveOwnerFromADeadOne) {
  const TemporaryFolder folder;
  write_run(folder.path() / "run");
  {
    const RunLock lock(folder.path() / "run/lock");
    const CommandResult live = railyard_in(folder.path(), "status run");
    EXPECT_THAT(live.output, HasSubstr("tiny  running\n"));
    EXPECT_THAT(live.output, HasSubstr("ETA 00:00:01\n"));
    EXPECT_THAT(live.output, HasSubstr("owner       held by "));
  }
  EXPECT_THAT(railyard_in(folder.path(), "status run").output, HasSubstr("tiny  ended\n"));
  LockOwner gone = LockOwner::self();
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  gone.pid = child;
  write_text(folder.path() / "run/lock", gone.to_json().dump());
  EXPECT_THAT(railyard_in(folder.path(), "status run").output, HasSubstr("tiny  died\n"));
  EXPECT_EQ(look_at_lock(folder.path() / "run/lock").state, LockSight::State::kDead);
  EXPECT_EQ(look_at_lock(folder.path() / "run/none").state, LockSight::State::kFree);
}

// A scontrol that knows job 71 (with a run), 72 (without one) and 73 (waiting).
TEST(StatusCommand, FindsTheRunOfASlurmJob) {
  const TemporaryFolder folder;
  write_run(folder.path() / "work dir/runs/tiny");
  write_text(folder.path() / "work dir/runs/tiny/why.json",
             R"({"exit": 0, "detail": "all iterations done", "slurm_job": "71"})");
  const fs::path bin = folder.path() / "bin";
  write_text(bin / "scontrol",
             "#!/bin/sh\ncase \"$4\" in\n"
             "  73) echo 'JobId=73 JobState=PENDING Reason=Resources WorkDir=/nowhere Power=';;\n"
             "  7[12]) echo \"JobId=$4 JobName=x JobState=RUNNING Reason=None WorkDir=" +
                 folder.path().string() +
                 "/work dir StdErr=/x\";;\n"
                 "  *) echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1;;\nesac\n");
  fs::permissions(bin / "scontrol", fs::perms::owner_all);
  const CommandResult found = railyard_in(folder.path(), "status 71", bin);
  EXPECT_EQ(found.status, 0) << found.errors;
  EXPECT_THAT(found.output, HasSubstr("tiny  done\n"));
  const CommandResult without = railyard_in(folder.path(), "status 72", bin);
  EXPECT_EQ(without.status, 2);
  EXPECT_THAT(without.errors,
              HasSubstr("job 72 (RUNNING): no run below " + (folder.path() / "work dir/runs").string()));
  const CommandResult waiting = railyard_in(folder.path(), "status 73", bin);
  EXPECT_EQ(waiting.status, 0);
  EXPECT_EQ(waiting.output, "job 73 waits in the queue (Resources)\n");
  const CommandResult unknown = railyard_in(folder.path(), "status 74_1", bin);
  EXPECT_EQ(unknown.status, 2);
  EXPECT_THAT(unknown.errors, HasSubstr("Slurm does not know it (any more): slurm_load_jobs error"));
}

// What the program writes to a pseudo-terminal until `text` appears, or nothing more comes.
std::string read_until(int terminal, const std::string& text) {
  std::string seen;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (seen.find(text) == std::string::npos && std::chrono::steady_clock::now() < end) {
    char part[4096];
    const ssize_t count = read(terminal, part, sizeof part);
    if (count <= 0) break;
    seen.append(part, static_cast<std::size_t>(count));
  }
  return seen;
}

class LiveView : public ::testing::TestWithParam<const char*> {};

// The parameter is what is typed: q, and Ctrl-C.
TEST_P(LiveView, RedrawsUntilAKeyAndLeavesTheTerminalAsItWas) {
  const TemporaryFolder folder;
  write_run(folder.path() / "run");
  const RunLock lock(folder.path() / "run/lock");
  int terminal = -1;
  winsize size{.ws_row = 30, .ws_col = 90, .ws_xpixel = 0, .ws_ypixel = 0};
  const std::string run = (folder.path() / "run").string();
  const pid_t child = forkpty(&terminal, nullptr, nullptr, &size);
  if (child == 0) {
    setenv("TERM", "xterm", 1);
    execl(kProgram.c_str(), kProgram.c_str(), "status", run.c_str(), nullptr);
    _exit(127);
  }
  EXPECT_THAT(read_until(terminal, "q quits"), HasSubstr("\x1b[?25l"));
  write_text(folder.path() / "run/metrics.jsonl", "{\"step\":3,\"loss\":1.25}\n");
  const std::string second = read_until(terminal, "q quits");
  EXPECT_THAT(second, HasSubstr("A\r\x1b[J"));
  EXPECT_THAT(second, HasSubstr("1.2500"));
  ASSERT_EQ(write(terminal, GetParam(), 1), 1);
  EXPECT_THAT(read_until(terminal, "\x1b[?25h"), HasSubstr("\x1b[?25h"));
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  close(terminal);
}

INSTANTIATE_TEST_SUITE_P(Keys, LiveView, ::testing::Values("q", "\x03"));

}  // namespace
}  // namespace railyard::launch
