// railyard job and railyard site as commands: what goes to which stream, and exit codes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "launch/process.hpp"
#include "runtime/base/job.hpp"
#include "tests/launch/temporary_folder.hpp"

namespace railyard::launch {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

const std::string kProgram = RAILYARD_BINARY_DIR "/railyard";
const std::string kExamples = RAILYARD_SOURCE_DIR "/examples/";

CommandResult railyard(std::vector<std::string> words, const std::string& input = {}) {
  words.insert(words.begin(), kProgram);
  Environment environment = current_environment();
  environment.erase("RAILYARD_SITE");
  environment["XDG_CONFIG_HOME"] = "/no/such/folder";
  return run_command(words, 60, &environment, input);
}

TEST(CommandJob, CheckPrintsTheResolvedJob) {
  const auto result = railyard({"job", "check", kExamples + "first_train.lua", "--json", "--set",
                                "train.iterations=700", "--set", "name=other"});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(result.errors, IsEmpty());
  const JobSpec job = JobSpec::from_json(parse_json(result.output, "standard output"));
  EXPECT_EQ(job.train.iterations, 700);
  EXPECT_EQ(job.name, "other");
  EXPECT_THAT(railyard({"job", "check", kExamples + "first_train.lua"}).output, HasSubstr("\nparallel.tp = 2\n"));
}

TEST(CommandJob, WrongJobsExitWithTwoAndOneMessage) {
  const auto result = railyard({"job", "check", kExamples + "first_train.lua", "--set", "train.iteratons=7"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.output, IsEmpty());
  EXPECT_EQ(result.errors,
            "railyard: --set train.iteratons=7: train.iteratons: unknown key; did you mean iterations?\n");
  EXPECT_EQ(railyard({"job", "check", "/no/such/file.lua"}).status, 2);
  EXPECT_EQ(railyard({"job", "check"}).status, 2);
  EXPECT_EQ(railyard({"job", "keys", "nothing"}).status, 2);
  EXPECT_EQ(railyard({"job"}).status, 2);
}

TEST(CommandJob, KeysListsKindsAndDefaults) {
  const auto result = railyard({"job", "keys", "train.lr"});
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.output, HasSubstr("train.lr.decay_iterations"));
  EXPECT_THAT(result.output, testing::Not(HasSubstr("model.layers")));
}

TEST(CommandJob, FromMegatronReadsStandardInput) {
  const auto result = railyard({"job", "from-megatron", "-"}, "--num-layers 2 --wandb-project p");
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.output, HasSubstr("layers = 2"));
  EXPECT_THAT(result.errors, HasSubstr("not in the job: --wandb-project p"));
  EXPECT_EQ(railyard({"job", "from-megatron", "-"}, "nothing").status, 2);
}

TEST(CommandSite, ShowsValuesWithTheirOrigin) {
  const auto result = railyard({"site", "--show", RAILYARD_SOURCE_DIR "/site/dgx_h100.lua"});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(result.output, testing::ContainsRegex("node.gpus +8 +.*dgx_h100.lua:[0-9]+"));
  EXPECT_THAT(railyard({"site", "--show"}).output, HasSubstr("site/local.lua"));
}

TEST(CommandSite, CheckTellsCleanDoubtfulAndUnusableApart) {
  TemporaryFolder folder;
  const auto write = [&](const std::string& name, const std::string& text) {
    const auto path = folder.path() / name;
    std::ofstream(path) << text;
    return path.string();
  };
  EXPECT_EQ(railyard({"site", "--check", RAILYARD_SOURCE_DIR "/site/local.lua"}).status, 0);
  const auto doubtful =
      railyard({"site", "--check",
                write("doubtful.lua", "return site { name = \"x\", paths = { runs = \"/no/such/folder\" } }")});
  EXPECT_EQ(doubtful.status, 1);
  EXPECT_THAT(doubtful.output, HasSubstr("doubtful.lua:1: paths.runs: /no/such/folder is no folder on this machine"));
  EXPECT_EQ(railyard({"site", "--check", write("unusable.lua", "return site { nam = 1 }")}).status, 2);
  EXPECT_EQ(railyard({"site"}).status, 2);
  EXPECT_EQ(railyard({"site", "--show", "--check"}).status, 2);
}

}  // namespace
}  // namespace railyard::launch
