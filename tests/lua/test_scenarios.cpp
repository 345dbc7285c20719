// Runs every file of scenarios/: a job file whose lines that begin with "--@ " say what must come of it.
//
//   --@ json: {"train": {"iterations": 5}}    the resolved job holds this (a subset, at any depth); may stand several
//   times
//   --@ error: 12: train.lr.peek: ...         the whole message, without the file's name; several lines are one message
//   --@ warning: 3: ...                       one of the warnings, whole, without the file's name
//   --@ set: key=value                        as --set
//   --@ env: NAME=value                       a variable that env.NAME sees
//   --@ arg: word                             as an argument of the job
//   --@ unbuilt:                              features that are not built are let through
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "lua/job.hpp"
#include "runtime/base/error.hpp"

namespace railyard::lua {
namespace {

namespace fs = std::filesystem;

constexpr double kLongestSeconds = 20.0;  // an endless loop must not outlast this, sanitizers included

struct Scenario {
  std::vector<Json> json;
  std::string error;
  std::vector<std::string> warnings;
  JobOptions options;
  std::map<std::string, std::string> environment;
};

Scenario read_scenario(const fs::path& path) {
  Scenario scenario;
  std::istringstream lines(read_file(path));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("--@ ")) continue;
    const auto colon = line.find(':');
    const std::string word = line.substr(4, colon - 4), rest = colon + 2 <= line.size() ? line.substr(colon + 2) : "";
    if (word == "json")
      scenario.json.push_back(parse_json(rest, path.string()));
    else if (word == "error")
      scenario.error += (scenario.error.empty() ? "" : "\n") + rest;
    else if (word == "warning")
      scenario.warnings.push_back(rest);
    else if (word == "set")
      scenario.options.sets.push_back(rest);
    else if (word == "arg")
      scenario.options.arguments.push_back(rest);
    else if (word == "unbuilt")
      scenario.options.require_built = false;
    else if (word == "env")
      scenario.environment[rest.substr(0, rest.find('='))] = rest.substr(rest.find('=') + 1);
    else
      ADD_FAILURE() << path << ": unknown word " << word;
  }
  return scenario;
}

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size())
    text.replace(at, what.size(), with);
  return text;
}

// Whether `whole` has everything that `part` has.
void expect_holds(const Json& whole, const Json& part, const std::string& path) {
  if (!part.is_object() || !whole.is_object()) {
    EXPECT_EQ(whole, part) << "at " << path;
    return;
  }
  for (const auto& [key, value] : part.items()) {
    ASSERT_TRUE(whole.contains(key)) << path << "." << key << " is missing";
    expect_holds(whole.at(key), value, path + "." + key);
  }
}

class Scenarios : public testing::TestWithParam<fs::path> {};

TEST_P(Scenarios, come_out_as_written) {
  const fs::path path = GetParam();
  Scenario scenario = read_scenario(path);
  ASSERT_TRUE(!scenario.json.empty() || !scenario.error.empty() || !scenario.warnings.empty())
      << "the scenario expects nothing";
  scenario.options.environment = [&](const std::string& name) -> std::optional<std::string> {
    const auto found = scenario.environment.find(name);
    return found == scenario.environment.end() ? std::nullopt : std::optional(found->second);
  };
  const std::string folder = path.parent_path().string() + "/", file = path.string() + ":";
  const auto start = std::chrono::steady_clock::now();
  std::string message;
  try {
    const EvaluatedJob job = evaluate_job(path, scenario.options);
    for (const Json& part : scenario.json) expect_holds(job.resolved, part, "job");
    for (const std::string& warning : scenario.warnings) EXPECT_THAT(job.warnings, testing::Contains(file + warning));
    if (scenario.warnings.empty()) {
      EXPECT_THAT(job.warnings, testing::IsEmpty());
    }
    EXPECT_EQ(JobSpec::from_json(job.resolved).to_json(), job.resolved);
  } catch (const UsageError& error) {
    message = replaced(replaced(replaced(error.what(), file + " ", ""), file, ""), folder, "");
  }
  EXPECT_EQ(message, scenario.error);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_LT(took.count(), kLongestSeconds);
}

std::vector<fs::path> scenario_files() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(fs::path(RAILYARD_SOURCE_DIR) / "tests/lua/scenarios"))
    if (entry.path().extension() == ".lua") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

std::string scenario_name(const testing::TestParamInfo<fs::path>& info) { return info.param.stem().string(); }

INSTANTIATE_TEST_SUITE_P(all, Scenarios, testing::ValuesIn(scenario_files()), scenario_name);

}  // namespace
}  // namespace railyard::lua
