// What ranks are in, as `status --stacks` and the launcher read it, and the watch over file systems.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>

#include "launch/activity_files.hpp"
#include "launch/stall_watch.hpp"
#include "launch/supervisor.hpp"
#include "tests/launch/temporary_folder.hpp"

namespace railyard::launch {
namespace {

using testing::HasSubstr;

RankSight sight(int rank, PhaseKind kind, const std::string& phase, const std::string& waiting) {
  RankSight result;
  result.activity.owner = {.rank = rank, .gpu = -1, .host = "node1"};
  result.activity.kind = kind;
  result.activity.phase = phase;
  result.activity.waiting = waiting;
  result.state = 'S';
  return result;
}

TEST(ActivityFiles, FindsRanksOfItsRunAlone) {
  const TemporaryFolder folder;
  const ActivityBoard mine(activity_file("/runs/a", 2, folder.path()), {.rank = 2, .gpu = -1, .host = "h"});
  const ActivityBoard second(activity_file("/runs/a", 11, folder.path()), {.rank = 11, .gpu = 1, .host = "h"});
  const ActivityBoard other(activity_file("/runs/b", 0, folder.path()), {.rank = 0, .gpu = -1, .host = "h"});
  const auto ranks = look_at_ranks("/runs/../runs/a", false, folder.path());
  ASSERT_EQ(ranks.size(), 2U);
  EXPECT_EQ(ranks[0].activity.owner.rank, 2);
  EXPECT_EQ(ranks[1].activity.owner.rank, 11);
  EXPECT_NE(ranks[0].state, '-');
  EXPECT_THAT(ranks[1].line(), HasSubstr("rank 11 on h gpu1: step 0, starting"));
  remove_dead_activities("/runs/a", folder.path());  // both live
  EXPECT_EQ(look_at_ranks("/runs/a", false, folder.path()).size(), 2U);
}

TEST(ActivityFiles, SeesStoppedAndDeadProcesses) {
  const TemporaryFolder folder;
  const auto file = activity_file("/runs/a", 0, folder.path());
  const pid_t child = fork();
  if (child == 0) {
    ActivityBoard board(file, {.rank = 0, .gpu = -1, .host = "h"});
    board.set_phase(PhaseKind::kCompute, "backward below layer 1");
    raise(SIGSTOP);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
  auto ranks = look_at_ranks("/runs/a", false, folder.path());
  ASSERT_EQ(ranks.size(), 1U);
  EXPECT_EQ(ranks[0].state, 'T');
  EXPECT_THAT(ranks[0].line(), HasSubstr("backward below layer 1 for "));
  EXPECT_THAT(ranks[0].line(), HasSubstr("(stopped)"));
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  ranks = look_at_ranks("/runs/a", false, folder.path());
  ASSERT_EQ(ranks.size(), 1U);
  EXPECT_EQ(ranks[0].state, '-');
  remove_dead_activities("/runs/a", folder.path());
  EXPECT_TRUE(look_at_ranks("/runs/a", false, folder.path()).empty());
}

TEST(ActivityFiles, NamesThoseThatHoldOthersUp) {
  const std::string text = what_each_was_in({sight(0, PhaseKind::kCompute, "x", "all_reduce of group tp 0"),
                                             sight(1, PhaseKind::kCompute, "forward from layer 3 on", ""),
                                             sight(2, PhaseKind::kCompute, "x", "all_reduce of group tp 0"),
                                             sight(3, PhaseKind::kCompute, "x", "barrier of all ranks")});
  EXPECT_EQ(
      text,
      "rank 1 on node1: step 0, forward from layer 3 on for 0.0 s; ranks 0, 2 in all_reduce of group tp 0; rank 3 "
      "in barrier of all ranks");
  std::vector<RankSight> many;
  for (int rank = 0; rank < 10000; ++rank)
    many.push_back(sight(rank, PhaseKind::kCompute, "x", rank == 77 ? "" : "barrier of all ranks"));
  EXPECT_LT(what_each_was_in(many).size(), 400U);
  EXPECT_THAT(what_each_was_in(many), HasSubstr("rank 77 on node1"));
}

TEST(ActivityFiles, AHangInAFileAccessIsAStall) {
  Ending ending;
  ending.reason = Reason::kHungCollective;
  ending.detail = "rank 0 has waited";
  note_ranks(ending, {sight(0, PhaseKind::kCompute, "x", "barrier of all ranks"),
                      sight(1, PhaseKind::kFiles, "writing a checkpoint", "")});
  EXPECT_EQ(ending.reason, Reason::kFileSystemStall);
  EXPECT_THAT(ending.detail, HasSubstr("rank 1 on node1 was writing a checkpoint while the others waited"));
  EXPECT_EQ(reason_name(ending.reason), "file_system_stall");
  ending.reason = Reason::kHungCollective;
  note_ranks(ending, {sight(1, PhaseKind::kCompute, "forward", "")});
  EXPECT_EQ(ending.reason, Reason::kHungCollective);
}

TEST(StallWatch, SpeaksOnlyOfOneLongFileAccess) {
  ActivityBoard board;
  std::atomic<int> calls{0};
  const StallWatch watch(
      board, 0.15,
      [&](const std::string& phase) {
        EXPECT_EQ(phase, "writing a checkpoint");
        ++calls;
      },
      0.02);
  for (int i = 0; i < 10; ++i) {  // busy with files, but getting on
    board.set_phase(PhaseKind::kFiles, "reading samples");
    usleep(30000);
  }
  board.set_phase(PhaseKind::kCompute, "forward");
  usleep(250000);
  board.set_phase(PhaseKind::kFiles, "reading samples");
  board.begin_wait("barrier of all ranks");  // it waits for others: theirs is the stall
  usleep(250000);
  board.end_wait();
  EXPECT_EQ(calls, 0);
  board.set_phase(PhaseKind::kFiles, "writing a checkpoint");
  for (int i = 0; i < 100 && calls == 0; ++i) usleep(20000);
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace railyard::launch
