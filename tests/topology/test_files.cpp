// Topology files against expected facts: our own fixtures always, files of real machines where they are beside the
// project. Adding a case is adding a file and its NAME.expect.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "runtime/base/error.hpp"
#include "tests/topology/expectations.hpp"
#include "topology/compare.hpp"
#include "topology/json.hpp"
#include "topology/merge.hpp"
#include "topology/render/render.hpp"
#include "topology/sources/source.hpp"
#include "topology/sources/text.hpp"

namespace railyard::topology {
namespace {

namespace fs = std::filesystem;

// The value at "/a/0/b"; "*" gathers over an array or an object's values.
Json select(const Json& value, const std::vector<std::string>& steps, std::size_t at = 0) {
  if (at == steps.size()) return value;
  if (steps[at] == "*") {
    Json all = Json::array();
    for (const auto& item : value) all.push_back(select(item, steps, at + 1));
    return all;
  }
  if (value.is_array()) {
    const auto index = parse_number<std::size_t>(steps[at]);
    if (!index || *index >= value.size()) return "(no such item)";
    return select(value.at(*index), steps, at + 1);
  }
  if (!value.is_object() || !value.contains(steps[at])) return "(no such key)";
  return select(value.at(steps[at]), steps, at + 1);
}

std::vector<fs::path> cases(const fs::path& folder) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".expect") found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

std::string test_name(const testing::TestParamInfo<fs::path>& info) {
  std::string name = info.param.stem();
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name;
}

const fs::path kFixtures = fs::path(RAILYARD_SOURCE_DIR) / "tests/topology/fixtures";
const fs::path kManifest = fs::path(RAILYARD_SOURCE_DIR) / "tests/topology/manifest";
const fs::path kShared = fs::path(RAILYARD_SOURCE_DIR) / ".." / "shared/topologies";

class Fixture : public testing::TestWithParam<fs::path> {};
class RealMachine : public testing::TestWithParam<fs::path> {};

TEST_P(Fixture, YieldsItsFacts) {
  fs::path file = GetParam();
  check_expectations(file.replace_extension(), GetParam());
}

TEST_P(RealMachine, YieldsItsFacts) {
  if (!fs::exists(kShared)) GTEST_SKIP() << "the files of real machines are not beside the project";
  const auto name = GetParam().stem();
  for (const auto& entry : fs::recursive_directory_iterator(kShared))
    if (entry.path().filename() == name) return check_expectations(entry.path(), GetParam());
  FAIL() << "no file " << name;
}

INSTANTIATE_TEST_SUITE_P(Own, Fixture, testing::ValuesIn(cases(kFixtures)), test_name);
INSTANTIATE_TEST_SUITE_P(Shared, RealMachine, testing::ValuesIn(cases(kManifest)), test_name);

TEST(RealMachines, EachHasExpectations) {
  if (!fs::exists(kShared)) GTEST_SKIP() << "the files of real machines are not beside the project";
  for (const auto& entry : fs::recursive_directory_iterator(kShared)) {
    if (!entry.is_regular_file() || entry.path().extension() == ".md") continue;
    EXPECT_TRUE(fs::exists(kManifest / (entry.path().filename().string() + ".expect"))) << entry.path();
  }
}

}  // namespace

std::vector<Expectation> read_expectations(const fs::path& file) {
  std::ifstream in(file);
  std::vector<Expectation> list;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    const auto content = trimmed(line);
    if (content.empty() || content.starts_with('#')) continue;
    const auto equals = content.find(" = "), tilde = content.find(" ~ ");
    const auto at = std::min(equals, tilde);
    if (at == std::string_view::npos) {
      ADD_FAILURE() << file << ":" << number << ": neither \" = \" nor \" ~ \"";
      continue;
    }
    list.push_back(
        {number, std::string(content.substr(0, at)), std::string(trimmed(content.substr(at + 3))), tilde < equals});
  }
  EXPECT_FALSE(list.empty()) << file;
  return list;
}

void check_expectations(const fs::path& topology_file, const fs::path& expect_file) {
  const auto expectations = read_expectations(expect_file);
  Machine machine;
  std::string error;
  try {
    machine = read_source(read_file(topology_file), topology_file.filename());
    warn_odd_nodes(machine);
  } catch (const UsageError& failure) {
    error = failure.what();
  }
  const bool refusal =
      std::any_of(expectations.begin(), expectations.end(), [](const Expectation& one) { return one.path == "error"; });
  ASSERT_TRUE(refusal || error.empty()) << error;
  const Json document = machine_to_json(machine);
  std::size_t findings = 0;
  for (const auto& node : machine.nodes) findings += node.warnings.size();
  if (machine.fabric) findings += machine.fabric->warnings.size();
  for (const auto& one : expectations) {
    const auto place = expect_file.filename().string() + ":" + std::to_string(one.line);
    if (one.path == "error") {
      EXPECT_THAT(error, testing::HasSubstr(one.value)) << place;
    } else if (one.path == "findings") {
      EXPECT_EQ(std::to_string(findings), one.value) << place << "\n" << document.dump(1);
    } else {
      std::vector<std::string> steps;
      for (const auto step : split_at(std::string_view(one.path).substr(1), '/')) steps.emplace_back(step);
      const Json found = select(document, steps);
      if (one.contains) {
        EXPECT_THAT(found.dump(), testing::HasSubstr(one.value)) << place << " " << one.path;
      } else {
        EXPECT_EQ(found, parse_json(one.value, place)) << place << " " << one.path;
      }
    }
  }
  if (refusal) return;
  // What is written is read back the same, and every picture can be drawn.
  const auto again = machine_from_json(parse_json(document.dump(), "again"), "again");
  EXPECT_EQ(machine_to_json(again), document);
  EXPECT_FALSE(render_text(machine, true).empty());
  EXPECT_THAT(render_svg(machine), testing::EndsWith("</svg>\n"));
  EXPECT_THAT(render_dot(machine), testing::StartsWith("graph"));
}

}  // namespace railyard::topology
