// Placement scenarios: readable text files in scenarios/. Adding a case is adding a file. Lines:
//   node NAME KIND GPUS              KIND: h100 (8, NVSwitch), h100x4, gb200 (4), a100, cube-mesh, pcie; GPUS: 0-3,5
//   fabric fat-tree nodes=N per-leaf=N [round-robin]     names are node1, node2, ...; else all of `node`s in order
//   racks N nodes-per-rack=N         NVLink racks with nodes r1n01, ...
//   layout tp=N cp=N dp=N pp=N ep=N  traffic AXIS=BYTES ...
//   expect together RANK...          on one node         expect rack-of RANK...     in one rack (name up to the n)
//   expect gpus-in RANK... : A|B     GPU indices all within one of the lists
//   expect share AXIS CLASS = X      share of the axis's bytes       expect seconds AXIS <= X     expect leaves AXIS <=
//   N expect note ~ TEXT               expect error ~ TEXT
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "launch/place/place.hpp"
#include "runtime/base/error.hpp"
#include "tests/launch/place/machines.hpp"

namespace railyard::launch {
namespace {

namespace fs = std::filesystem;
using namespace testing_machines;

struct Scenario {
  Allocation allocation;
  ParallelSpec layout;
  Traffic traffic;
  std::vector<std::pair<std::string, std::vector<std::string>>> expectations;  // place, words
};

topology::Node node_of(const std::string& kind) {
  if (kind == "h100") return switched_node(8);
  if (kind == "h100x4") return switched_node(4, 18);
  if (kind == "gb200") return switched_node(4, 18, "NVIDIA GB200");
  if (kind == "a100") return switched_node(8, 12, "NVIDIA A100-SXM4-80GB");
  if (kind == "cube-mesh") return cube_mesh_node();
  if (kind == "pcie") return switched_node(8, 0, "NVIDIA L40S");
  ADD_FAILURE() << "no node of kind " << kind;
  return {};
}

// The value of KEY=VALUE among the words.
double number(const std::vector<std::string>& words, const std::string& key, double otherwise) {
  for (const auto& word : words)
    if (word.starts_with(key + "=")) return std::stod(word.substr(key.size() + 1));
  return otherwise;
}

Axis axis_of(const std::string& name) {
  for (const Axis axis : {Axis::kTp, Axis::kCp, Axis::kDp, Axis::kPp, Axis::kEtp, Axis::kEp, Axis::kEdp})
    if (axis_name(axis) == name) return axis;
  ADD_FAILURE() << "no axis " << name;
  return Axis::kTp;
}

Scenario read_scenario(const fs::path& path) {
  Scenario scenario;
  std::ifstream in(path);
  int line_number = 0;
  for (std::string line; std::getline(in, line);) {
    ++line_number;
    std::istringstream stream(line.substr(0, line.find('#')));
    std::vector<std::string> words{std::istream_iterator<std::string>(stream), {}};
    if (words.empty()) continue;
    const std::string what = words[0];
    words.erase(words.begin());
    if (what == "node")
      scenario.allocation.nodes.push_back(
          {words[0], node_of(words[1]), topology::CpuSet::parse_list(words[2])->members()});
    else if (what == "fabric")
      scenario.allocation.fabric =
          topology::make_fat_tree({.nodes = static_cast<int>(number(words, "nodes", 1)),
                                   .nodes_per_leaf = static_cast<int>(number(words, "per-leaf", 1)),
                                   .round_robin = words.back() == "round-robin"});
    else if (what == "racks") {
      scenario.allocation.fabric =
          topology::make_nvlink_racks(std::stoi(words[0]), static_cast<int>(number(words, "nodes-per-rack", 18)));
      scenario.allocation.blocks_are_nvlink = true;
    } else if (what == "layout") {
      const auto degree = [&](const char* key) { return static_cast<std::int64_t>(number(words, key, 1)); };
      scenario.layout.tp = degree("tp");
      scenario.layout.cp = degree("cp");
      scenario.layout.dp = degree("dp");
      scenario.layout.pp = degree("pp");
      scenario.layout.ep = degree("ep");
      scenario.layout.etp = scenario.layout.ep > 1 ? 1 : 0;
    } else if (what == "traffic") {
      for (const auto& word : words)
        scenario.traffic[axis_of(word.substr(0, word.find('=')))] = std::stod(word.substr(word.find('=') + 1));
    } else if (what == "expect") {
      scenario.expectations.emplace_back(path.filename().string() + ":" + std::to_string(line_number), words);
    } else {
      ADD_FAILURE() << path << ":" << line_number << ": " << what;
    }
  }
  EXPECT_FALSE(scenario.expectations.empty()) << path;
  return scenario;
}

std::string rest_of(const std::vector<std::string>& words, std::size_t from) {
  std::string text;
  for (std::size_t i = from; i < words.size(); ++i) text += (text.empty() ? "" : " ") + words[i];
  return text;
}

void check(const Scenario& scenario, const Placement& placement, const std::string& place,
           const std::vector<std::string>& words) {
  const auto rank = [&](const std::string& word) -> const RankPlace& {
    return placement.ranks.at(static_cast<std::size_t>(std::stoi(word)));
  };
  const auto axis = [&](const std::string& name) -> const AxisCost& {
    const auto it = std::find_if(placement.cost.axes.begin(), placement.cost.axes.end(),
                                 [&](const AxisCost& cost) { return cost.axis == axis_of(name); });
    if (it == placement.cost.axes.end()) throw std::logic_error("no traffic on " + name);
    return *it;
  };
  if (words[0] == "together" || words[0] == "rack-of") {
    std::set<std::string> seen;
    for (std::size_t i = 1; i < words.size(); ++i) {
      const auto& name = scenario.allocation.nodes[static_cast<std::size_t>(rank(words[i]).node)].name;
      seen.insert(words[0] == "together" ? name : name.substr(0, name.find('n')));
    }
    EXPECT_EQ(seen.size(), 1U) << place;
  } else if (words[0] == "gpus-in") {
    topology::CpuSet gpus;
    std::size_t i = 1;
    for (; words[i] != ":"; ++i) gpus.add(rank(words[i]).gpu);
    const auto bar = words[i + 1].find('|');
    EXPECT_TRUE(gpus.subset_of(*topology::CpuSet::parse_list(words[i + 1].substr(0, bar))) ||
                gpus.subset_of(*topology::CpuSet::parse_list(words[i + 1].substr(bar + 1))))
        << place << ": " << gpus.list();
  } else if (words[0] == "share") {
    const auto& bytes = axis(words[1]).bytes;
    double total = 0, share = 0;
    for (int link = 0; link < kLinkClasses; ++link) {
      total += bytes[static_cast<std::size_t>(link)];
      if (link_class_name(static_cast<LinkClass>(link)) == words[2]) share = bytes[static_cast<std::size_t>(link)];
    }
    EXPECT_NEAR(share / total, std::stod(words[4]), 1e-6) << place;
  } else if (words[0] == "seconds") {
    EXPECT_LE(axis(words[1]).seconds, std::stod(words[3])) << place;
  } else if (words[0] == "leaves") {
    EXPECT_LE(axis(words[1]).most_leaves, std::stoi(words[3])) << place;
  } else if (words[0] == "note") {
    EXPECT_THAT(placement.notes, testing::Contains(testing::HasSubstr(rest_of(words, 2)))) << place;
  } else {
    ADD_FAILURE() << place << ": " << words[0];
  }
}

std::vector<fs::path> scenarios() {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(fs::path(RAILYARD_SOURCE_DIR) / "tests/launch/place/scenarios"))
    found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

class PlacementScenario : public testing::TestWithParam<fs::path> {};

TEST_P(PlacementScenario, Holds) {
  const auto scenario = read_scenario(GetParam());
  std::string error;
  Placement placement;
  try {
    placement = place(Layout::resolve(scenario.layout, 0), scenario.allocation, scenario.traffic);
  } catch (const UsageError& failure) {
    error = failure.what();
  }
  for (const auto& [where, words] : scenario.expectations) {
    if (words[0] == "error") {
      EXPECT_THAT(error, testing::HasSubstr(rest_of(words, 2))) << where;
    } else {
      ASSERT_EQ(error, "") << where;
      check(scenario, placement, where, words);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Files, PlacementScenario, testing::ValuesIn(scenarios()), [](const auto& param) {
  std::string name = param.param.stem();
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name;
});

}  // namespace
}  // namespace railyard::launch
