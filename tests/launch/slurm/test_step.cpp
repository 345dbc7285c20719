// The srun command, and what srun says of itself in several versions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "launch/slurm/step.hpp"

namespace railyard::launch {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Not;
using testing::Pair;

TEST(Srun, TellsItsVersionAndFlavours) {
  const auto debian = parse_srun("slurm-wlm 22.05.8\n",
                                 "MPI plugin types are...\n\tpmix\n\tnone\n\tcray_shasta\n\tpmi2\nspecific pmix plugin "
                                 "versions available: pmix_v4\n");
  EXPECT_EQ(debian.major, 22);
  EXPECT_EQ(debian.minor, 5);
  EXPECT_EQ(debian.pmix(), "pmix");
  const auto older =
      parse_srun("slurm 21.08.5", "srun: MPI types are...\nsrun: pmi2\nsrun: none\nsrun: pmix_v3\nsrun: pmix_v2\n");
  EXPECT_EQ(older.pmix(), "pmix_v3");
  const auto without = parse_srun("slurm 24.11.0", "MPI plugin types are...\n\tnone\n\tcray_shasta\n\tpmi2\n");
  EXPECT_FALSE(without.pmix());
}

SrunOptions two_by_two() {
  SrunOptions options;
  options.shape = {4, 2, 3};
  options.node_count = 2;
  options.program = {"/p/railyard", "run", "/j.lua"};
  return options;
}

TEST(Srun, SaysEverythingItself) {
  const auto srun = parse_srun("slurm 22.05.8", "pmix none");
  const auto command = srun_command(srun, two_by_two(), {{"SLURM_JOB_ID", "5"}, {"PATH", "/bin"}});
  for (const char* word : {"--export=ALL", "--nodes=2", "--ntasks=4", "--ntasks-per-node=2", "--cpus-per-task=3",
                           "--mem=0", "--overlap", "--mpi=pmix"})
    EXPECT_THAT(command.words, Contains(word));
  EXPECT_EQ(command.words.back(), "/j.lua");
  EXPECT_THAT(command.environment, Contains(Pair("SLURM_PMIX_FENCE", "ring")));
}

TEST(Srun, DropsInheritedOptionsAndKeepsTheJob) {
  const Environment inherited{{"SLURM_JOB_ID", "5"},
                              {"SLURM_CONF", "/c"},
                              {"SLURM_EXPORT_ENV", "NONE"},
                              {"SLURM_MEM_PER_CPU", "1"},
                              {"SLURM_MEM_PER_NODE", "9"},
                              {"SBATCH_EXPORT", "NONE"},
                              {"SLURM_NTASKS", "99"},
                              {"PMIX_RANK", "0"},
                              {"SLURM_CPU_BIND", "x"},
                              {"SLURM_STEP_ID", "0"},
                              {"HOME", "/h"},
                              {"SLURM_RESTART_COUNT", "2"}};
  const auto command = srun_command(parse_srun("slurm 22.05.8", "pmix"), two_by_two(), inherited);
  for (const char* name : {"SLURM_EXPORT_ENV", "SLURM_MEM_PER_CPU", "SLURM_MEM_PER_NODE", "SBATCH_EXPORT",
                           "SLURM_NTASKS", "PMIX_RANK", "SLURM_CPU_BIND", "SLURM_STEP_ID"})
    EXPECT_THAT(command.environment, Not(Contains(Pair(name, testing::_))));
  for (const char* name : {"SLURM_JOB_ID", "SLURM_CONF", "HOME", "SLURM_RESTART_COUNT"})
    EXPECT_THAT(command.environment, Contains(Pair(name, testing::_)));
}

TEST(Srun, RunsRanksInAContainer) {
  const auto srun = parse_srun("slurm 22.05.8", "pmix none");
  const std::string here = std::filesystem::current_path().string();
  auto options = two_by_two();
  options.container = StepContainer{.image = "/images/r.sqsh", .mounts = {"/scratch", "/a:/b"}};
  auto words = srun_command(srun, options, {}).words;
  EXPECT_THAT(words, Contains("--container-image=/images/r.sqsh"));
  EXPECT_THAT(words, Contains("--container-workdir=" + here));
  EXPECT_THAT(words, Contains("--container-mounts=/scratch:/scratch,/a:/b," + here + ":" + here));
  // The image's own program: the host's path means nothing in there.
  EXPECT_THAT(std::vector<std::string>(words.end() - 3, words.end()), ElementsAre("railyard", "run", "/j.lua"));

  options.container->apptainer = true;
  words = srun_command(srun, options, {}).words;
  const std::vector<std::string> tail(words.end() - 11, words.end() - 1);
  EXPECT_THAT(tail, ElementsAre("apptainer", "exec", "--nv", "--pwd=" + here, "--bind=/scratch", "--bind=/a:/b",
                                "--bind=" + here, "/images/r.sqsh", "railyard", "run"));
}

}  // namespace
}  // namespace railyard::launch
