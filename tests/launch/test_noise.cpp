// What users see of mpirun's and srun's last words.
#include <gtest/gtest.h>

#include "launch/noise.hpp"
#include "launch/supervisor.hpp"

namespace railyard::launch {
namespace {

const std::string kRuler(74, '-');

std::pair<std::string, std::string> filter(const std::string& text, std::size_t piece) {
  NoiseFilter noise;
  std::string shown, hidden;
  for (std::size_t at = 0; at < text.size(); at += piece)
    noise.feed(std::string_view(text).substr(at, piece), shown, hidden);
  noise.finish(shown, hidden);
  return {shown, hidden};
}

TEST(Noise, HidesBoxesAboutExitCodes) {
  const std::string box =
      kRuler + "\nPrimary job  terminated normally, but 1 process returned\na non-zero exit code.\n" + kRuler + "\n";
  for (const std::size_t piece : {1UL, 7UL, 1000UL}) {
    const auto [shown, hidden] = filter("before\n" + box + "after\n", piece);
    EXPECT_EQ(shown, "before\nafter\n");
    EXPECT_EQ(hidden, box);
  }
}

TEST(Noise, ShowsEveryOtherBox) {
  const std::string box = kRuler + "\nThere are not enough slots available in the system.\n" + kRuler + "\n";
  EXPECT_EQ(filter(box, 5).first, box);
}

TEST(Noise, HidesWhatSrunRepeats) {
  const auto [shown, hidden] = filter(
      "srun: error: node3: task 5: Exited with exit code 75\nrailyard: mine\nsrun: error: Unable to create step\n", 9);
  EXPECT_EQ(shown, "railyard: mine\nsrun: error: Unable to create step\n");
  EXPECT_EQ(hidden, "srun: error: node3: task 5: Exited with exit code 75\n");
}

TEST(Noise, HidesWhatOpenMpiSaysOfBoxesItLeftOut) {
  const auto [shown, hidden] = filter(
      "[vm:08471] 3 more processes have sent help message help-mpi-api.txt / mpi-abort\n[vm:08471] Set MCA parameter "
      "\"orte_base_help_aggregate\" to 0 to see all help / error messages\n[vm:08514] [[19900,0],0] ORTE_ERROR_LOG: "
      "Out "
      "of resource in file ../../../orte/util/show_help.c at line 501\n[vm:1] something else\n",
      11);
  EXPECT_EQ(shown, "[vm:1] something else\n");
}

// Where the run directory cannot be written, ranks cannot agree on who speaks.
TEST(Noise, ShowsWhatAllRanksSayOnce) {
  NoiseFilter noise;
  std::string shown, hidden;
  noise.feed("railyard: disk full\nrailyard: disk full\nrailyard: another\n", shown, hidden);
  EXPECT_EQ(shown, "railyard: disk full\nrailyard: another\n");
  EXPECT_EQ(noise.last_message(), "another");
}

TEST(Noise, PassesALiveBarOn) {
  NoiseFilter noise;
  std::string shown, hidden;
  noise.feed("step 1\r", shown, hidden);
  EXPECT_EQ(shown, "step 1\r");
}

TEST(Noise, NamesTheRankThatDied) {
  EXPECT_EQ(who_died("mpirun noticed that process rank 1 with PID 0 on node vm exited on signal 9 (Killed)."),
            "rank 1 on vm was killed by signal 9 (Killed)");
  EXPECT_EQ(who_died("srun: error: node3: task 5: Killed\n"), "rank 5 on node3 ended: Killed");
  EXPECT_EQ(who_died("nothing"), "");
  EXPECT_EQ(where_died("srun: error: node3: task 5: Killed\n"), "node3");
  const Json placement{{"map", {{{"rank", 0}, {"started_as", 5}}, {{"rank", 5}, {"started_as", 0}}}}};
  EXPECT_EQ(who_died("srun: error: node3: task 5: Killed\n", placement), "rank 0 on node3 ended: Killed");
  EXPECT_EQ(who_died("srun: error: node3: tasks 4-5: Killed\n", placement), "rank 4-5 on node3 ended: Killed");
}

}  // namespace
}  // namespace railyard::launch
