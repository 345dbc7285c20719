// Endings: the word for each, who is asked to start again, and why.json.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "launch/outcome.hpp"
#include "runtime/base/error.hpp"
#include "tests/launch/temporary_folder.hpp"

namespace railyard::launch {
namespace {

class Outcome : public testing::Test {
 protected:
  Outcome() { std::filesystem::create_directories(folder_.path() / "log"); }
  Ending judge_with(const std::vector<RankEnd>& ends, int status, bool asked = false) {
    for (const auto& end : ends) leave_rank_end(folder_.path(), 1, end);
    return judge(folder_.path(), 1, status, asked);
  }
  TemporaryFolder folder_;
};

TEST_F(Outcome, KnowsErrorsByTheirWords) {
  EXPECT_EQ(classify(UsageError("x")), Reason::kBadInput);
  EXPECT_EQ(classify(RunError("step 3: loss is not finite")), Reason::kNotFinite);
  EXPECT_EQ(classify(RunError("ckpt: write: No space left on device")), Reason::kFileSystem);
  EXPECT_EQ(classify(RunError("rank 1 has waited 600 s in all_reduce")), Reason::kHungCollective);
  EXPECT_EQ(classify(std::bad_alloc()), Reason::kOutOfMemory);
  EXPECT_EQ(classify(RunError("else")), Reason::kError);
}

TEST_F(Outcome, GoodEndsNeedNoRecord) {
  EXPECT_EQ(judge_with({}, 0).reason, Reason::kFinished);
  EXPECT_EQ(judge_with({}, 75).reason, Reason::kSignal);
}

TEST_F(Outcome, AKilledRankIsWorthARestart) {
  const Ending ending = judge_with({}, 137);
  EXPECT_EQ(ending.reason, Reason::kRankKilled);
  EXPECT_EQ(ending.exit_code, 1);
  EXPECT_TRUE(worth_restarting(ending));
}

TEST_F(Outcome, AnErrorOfARanksOwnIsNot) {
  const Ending ending = judge_with({{2, "node1", Reason::kNotFinite, 1, "loss is not finite"}}, 1);
  EXPECT_EQ(ending.reason, Reason::kNotFinite);
  EXPECT_THAT(ending.detail, testing::HasSubstr("rank 2 on node1: loss is not finite"));
  EXPECT_FALSE(worth_restarting(ending));
}

TEST_F(Outcome, TheFirstCauseBeatsThoseWhoWaited) {
  const Ending ending =
      judge_with({{0, "a", Reason::kHungCollective, 1, "has waited"}, {3, "b", Reason::kFileSystem, 1, "disk"}}, 1);
  EXPECT_EQ(ending.reason, Reason::kFileSystem);
}

TEST_F(Outcome, KilledWhileSavingIsSaid) {
  EXPECT_THAT(judge_with({}, 143, true).detail, testing::HasSubstr("before a checkpoint was complete"));
}

TEST_F(Outcome, ASentenceIsSaidOnce) {
  EXPECT_TRUE(first_to_say(folder_.path(), 1, "a"));
  EXPECT_FALSE(first_to_say(folder_.path(), 1, "a"));
  EXPECT_TRUE(first_to_say(folder_.path(), 1, "b"));
  EXPECT_TRUE(first_to_say(folder_.path(), 2, "a"));
}

TEST_F(Outcome, WhyKeepsItsHistory) {
  Ending ending = judge_with({}, 137);
  write_why(folder_.path(), ending);
  ending = judge_with({}, 0);
  ending.start = 2;
  ending.step = 20;
  write_why(folder_.path(), ending);
  const Json why = read_json_file(folder_.path() / "why.json");
  EXPECT_EQ(why["reason"], "finished");
  EXPECT_EQ(why["step"], 20);
  EXPECT_EQ(why["history"].size(), 1U);
  EXPECT_EQ(why["history"][0]["reason"], "rank_killed");
  std::ofstream(folder_.path() / "why.json") << "{broken";
  write_why(folder_.path(), ending);
  EXPECT_EQ(read_json_file(folder_.path() / "why.json")["start"], 2);
}

}  // namespace
}  // namespace railyard::launch
