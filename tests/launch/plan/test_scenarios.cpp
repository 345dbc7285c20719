// Whole runs of `railyard plan`: readable text files in scenarios/. Adding a case is adding a file. Lines:
//   args WORDS...                    of the command line, after `plan JOB`
//   env NAME=VALUE
//   site | job | calibration         the lines that follow, up to `end`, are that file
//   expect json POINTER OP VALUE     OP: ==, <, >, ~= (within 1 %); VALUE: JSON. Adds --json to args
//   expect text ~ TEXT               of standard output without --json
//   expect error ~ TEXT              exit code 2 with this text
//   expect seconds < N               of the program
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "launch/process.hpp"
#include "runtime/base/json.hpp"
#include "tests/launch/temporary_folder.hpp"

namespace railyard::launch {
namespace {

namespace fs = std::filesystem;

struct Scenario {
  std::vector<std::string> arguments;
  Environment environment = current_environment();
  std::string site, job, calibration;
  std::vector<std::pair<std::string, std::vector<std::string>>> expectations;  // place, words
  bool json = false;
};

std::string joined(const std::vector<std::string>& words, std::size_t from) {
  std::string text;
  for (std::size_t i = from; i < words.size(); ++i) text += (text.empty() ? "" : " ") + words[i];
  return text;
}

// Lines are wrapped to the terminal: any white space counts as one space.
std::string unwrapped(const std::string& text) {
  std::istringstream stream(text);
  return joined({std::istream_iterator<std::string>(stream), {}}, 0);
}

Scenario read_scenario(const fs::path& path) {
  Scenario scenario;
  std::ifstream in(path);
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    std::istringstream stream(line);
    std::vector<std::string> words{std::istream_iterator<std::string>(stream), {}};
    if (words.empty() || words[0][0] == '#') continue;
    const std::string what = words[0];
    if (what == "site" || what == "job" || what == "calibration") {
      std::string& text = what == "site" ? scenario.site : what == "job" ? scenario.job : scenario.calibration;
      for (; std::getline(in, line) && line != "end"; ++number) text += line + "\n";
      ++number;
      continue;
    }
    words.erase(words.begin());
    if (what == "args") scenario.arguments = words;
    if (what == "env")
      scenario.environment[words[0].substr(0, words[0].find('='))] = words[0].substr(words[0].find('=') + 1);
    if (what != "expect") continue;
    scenario.json = scenario.json || words[0] == "json";
    scenario.expectations.emplace_back(path.filename().string() + ":" + std::to_string(number), words);
  }
  EXPECT_FALSE(scenario.expectations.empty()) << path;
  return scenario;
}

void check_json(const Json& document, const std::string& place, const std::vector<std::string>& words) {
  const Json::json_pointer pointer(words[1]);
  ASSERT_TRUE(document.contains(pointer)) << place << "\n" << document.dump(1);
  const Json &value = document.at(pointer), expected = Json::parse(joined(words, 3));
  if (words[2] == "==") {
    EXPECT_EQ(value, expected) << place;
    return;
  }
  ASSERT_TRUE(value.is_number()) << place << ": " << value;
  const double found = value.get<double>(), wanted = expected.get<double>();
  if (words[2] == "<")
    EXPECT_LT(found, wanted) << place;
  else if (words[2] == ">")
    EXPECT_GT(found, wanted) << place;
  else if (words[2] == "~=")
    EXPECT_NEAR(found, wanted, 0.01 * std::abs(wanted)) << place;
  else
    ADD_FAILURE() << place << ": " << words[2];
}

std::vector<fs::path> scenarios() {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(fs::path(RAILYARD_SOURCE_DIR) / "tests/launch/plan/scenarios"))
    found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

class PlanScenario : public testing::TestWithParam<fs::path> {};

TEST_P(PlanScenario, Holds) {
  Scenario scenario = read_scenario(GetParam());
  const TemporaryFolder folder;
  std::ofstream(folder.path() / "job.lua") << scenario.job;
  std::ofstream(folder.path() / "site.lua")
      << (scenario.site.empty() ? "return site { name = \"nothing\" }\n" : scenario.site);
  // The machine that runs the tests has no say.
  scenario.environment["HOME"] = folder.path().string();
  for (const char* name : {"RAILYARD_SITE", "RAILYARD_CALIBRATION", "XDG_CACHE_HOME", "SLURM_JOB_ID"})
    scenario.environment.erase(name);
  if (!scenario.calibration.empty()) {
    std::ofstream(folder.path() / "calibration.json") << scenario.calibration;
    scenario.environment["RAILYARD_CALIBRATION"] = (folder.path() / "calibration.json").string();
  }
  std::vector<std::string> command{std::string(RAILYARD_BINARY_DIR) + "/railyard", "plan",
                                   (folder.path() / "job.lua").string(), "--site",
                                   (folder.path() / "site.lua").string()};
  command.insert(command.end(), scenario.arguments.begin(), scenario.arguments.end());
  const auto begin = std::chrono::steady_clock::now();
  const CommandResult text = run_command(command, 120, &scenario.environment);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  Json document;
  if (scenario.json) {
    command.emplace_back("--json");
    const CommandResult result = run_command(command, 120, &scenario.environment);
    ASSERT_EQ(result.status, 0) << result.errors;
    document = parse_json(result.output, "plan --json");
  }
  bool refused = false;
  for (const auto& [place, words] : scenario.expectations) {
    if (words[0] == "json")
      check_json(document, place, words);
    else if (words[0] == "text")
      EXPECT_THAT(unwrapped(text.output), testing::HasSubstr(joined(words, 2))) << place;
    else if (words[0] == "error") {
      refused = true;
      EXPECT_THAT(text.errors, testing::HasSubstr(joined(words, 2))) << place;
    } else if (words[0] == "seconds")
      EXPECT_LT(seconds, std::stod(words[2])) << place;
    else
      ADD_FAILURE() << place << ": " << words[0];
  }
  EXPECT_EQ(text.status, refused ? 2 : 0) << text.errors;
}

INSTANTIATE_TEST_SUITE_P(Files, PlanScenario, testing::ValuesIn(scenarios()), [](const auto& test) {
  std::string name = test.param.stem().string();
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace railyard::launch
