// The board of what a rank is in: its own view, another process's, and files that are none.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "runtime/base/activity.hpp"
#include "runtime/base/error.hpp"

namespace railyard {
namespace {

std::filesystem::path file_named(const char* name) {
  return std::filesystem::temp_directory_path() / ("railyard-test-" + std::to_string(getpid()) + "-" + name);
}

TEST(Activity, ShowsPhaseAndWait) {
  ActivityBoard board;
  board.set_step(7);
  board.set_phase(PhaseKind::kCompute, "forward from layer 2 on");
  board.begin_wait("all_reduce of group tp 0");
  Activity seen = board.look();
  EXPECT_EQ(seen.step, 7);
  EXPECT_EQ(seen.kind, PhaseKind::kCompute);
  EXPECT_EQ(seen.phase, "forward from layer 2 on");
  EXPECT_EQ(seen.waiting, "all_reduce of group tp 0");
  EXPECT_GT(seen.phase_since, 1.6e9);
  usleep(20000);
  board.end_wait();
  seen = board.look();
  EXPECT_EQ(seen.waiting, "");
  EXPECT_EQ(seen.waiting_since, 0.0);
  EXPECT_GE(board.waited(), 0.019);
  EXPECT_LT(board.waited(), 5.0);
}

TEST(Activity, CutsLongTexts) {
  ActivityBoard board;
  board.begin_wait(std::string(10000, 'x'));
  EXPECT_EQ(board.look().waiting, std::string(191, 'x'));
}

TEST(Activity, OutlivesAKilledProcess) {
  const auto file = file_named("killed");
  const pid_t child = fork();
  if (child == 0) {
    ActivityBoard board(file, {.rank = 12, .gpu = 3, .host = "node7"});
    board.set_phase(PhaseKind::kFiles, "writing a checkpoint");
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  waitpid(child, &status, 0);
  const auto seen = read_activity(file);
  ASSERT_TRUE(seen);
  EXPECT_EQ(seen->owner.rank, 12);
  EXPECT_EQ(seen->owner.gpu, 3);
  EXPECT_EQ(seen->owner.host, "node7");
  EXPECT_EQ(seen->pid, child);
  EXPECT_EQ(seen->kind, PhaseKind::kFiles);
  EXPECT_EQ(seen->phase, "writing a checkpoint");
  struct stat about {};
  ASSERT_EQ(stat(file.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0600U);
  // The next start replaces it, and takes it away when it ends.
  { const ActivityBoard board(file, {.rank = 1, .gpu = -1, .host = "h"}); }
  EXPECT_FALSE(std::filesystem::exists(file));
}

TEST(Activity, RefusesFilesThatAreNone) {
  const auto file = file_named("none");
  EXPECT_FALSE(read_activity(file));
  std::ofstream(file) << "short";
  EXPECT_FALSE(read_activity(file));
  std::ofstream(file) << std::string(4096, 'x');
  EXPECT_FALSE(read_activity(file));
  std::filesystem::remove(file);
  std::filesystem::create_symlink("/etc/passwd", file);
  EXPECT_FALSE(read_activity(file));
  std::filesystem::remove(file);
  EXPECT_THROW(ActivityBoard("/nowhere/board", {}), RunError);
}

}  // namespace
}  // namespace railyard
