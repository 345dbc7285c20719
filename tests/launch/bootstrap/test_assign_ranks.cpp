// What rank 0 settles for all, as readable text files in assign/. Adding a case is adding a file. Lines:
//   node NAME KIND                    KIND: h100 (8, NVSwitch), h100x4, pcie (8), cube-mesh (8), mig (2 parts), cpu
//   rank NODE [mask=1,0] [cgroup=3] [cpus=0-7] [times=N]     ranks in the order in which they were started
//   layout tp=N dp=N pp=N             device cpu             communicator mpi
//   leaf NAME NODE...                 a first-level switch; all are below one spine
//   site LUA                          a line of the site's table
//   expect rank R KEY = VALUE         KEY: logical, ordinal, visible, cpus, nic, HCA (NCCL_IB_HCA), UCX
//                                     (UCX_NET_DEVICES), env.NAME; VALUE "none" where it is not set
//   expect together L...              logical ranks on one node
//   expect place L NODE GPU           expect note ~ TEXT     expect error ~ TEXT
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "launch/bootstrap/assign_ranks.hpp"
#include "lua/job.hpp"
#include "runtime/base/error.hpp"
#include "tests/launch/bootstrap/assigning.hpp"

namespace railyard::launch {
namespace {

namespace fs = std::filesystem;
using namespace testing_machines;

struct Case {
  std::map<std::string, topology::Node> nodes;
  std::vector<RankFacts> ranks;
  std::vector<std::string> layout;
  std::string device = "cuda", communicator = "auto", site;
  std::optional<topology::Fabric> fabric;
  std::vector<std::pair<std::string, std::vector<std::string>>> expectations;
};

std::string value(const std::vector<std::string>& words, const std::string& key, const std::string& otherwise) {
  for (const auto& word : words)
    if (word.starts_with(key + "=")) return word.substr(key.size() + 1);
  return otherwise;
}

Case read_case(const fs::path& path) {
  Case read;
  std::map<std::string, int> local;
  std::ifstream in(path);
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.starts_with("site ")) {
      read.site += line.substr(5) + "\n";
      continue;
    }
    std::istringstream stream(line.substr(0, line.find('#')));
    std::vector<std::string> words{std::istream_iterator<std::string>(stream), {}};
    if (words.empty()) continue;
    const std::string what = words[0];
    words.erase(words.begin());
    if (what == "node") {
      read.nodes[words[0]] = described_node(words[0], words[1]);
    } else if (what == "rank") {
      const auto cgroup = topology::CpuSet::parse_list(value(words, "cgroup", ""))->members();
      for (int i = std::stoi(value(words, "times", "1")); i > 0; --i)
        read.ranks.push_back(facts_on(read.nodes.at(words[0]), local[words[0]]++, value(words, "mask", "-"), cgroup,
                                      value(words, "cpus", "")));
    } else if (what == "layout") {
      for (const auto& word : words) read.layout.push_back("parallel." + word);
    } else if (what == "device") {
      read.device = words[0];
    } else if (what == "communicator") {
      read.communicator = words[0];
    } else if (what == "leaf") {
      if (!read.fabric) read.fabric.emplace().switches.push_back({"spine", 1, std::nullopt, {}});
      read.fabric->switches.push_back({words[0], 0, "spine", {words.begin() + 1, words.end()}});
    } else if (what == "expect") {
      read.expectations.emplace_back(fmt::format("{}:{}", path.filename().string(), number), words);
    } else {
      ADD_FAILURE() << path << ":" << number << ": " << what;
    }
  }
  EXPECT_FALSE(read.expectations.empty()) << path;
  return read;
}

std::string rest_of(const std::vector<std::string>& words, std::size_t from) {
  return fmt::format("{}", fmt::join(words.begin() + static_cast<std::ptrdiff_t>(from), words.end(), " "));
}

std::string told(const Assignment& assigned, const std::vector<std::string>& words) {
  const RankAssignment& rank = assigned.ranks.at(std::stoul(words[1]));
  const std::string& key = words[2];
  std::vector<std::string> notes;
  EnvironmentSources sources;
  sources.network = rank.network;
  sources.site_hook = rank.site_hook;
  sources.cuda = rank.ordinal >= 0;
  const auto variable = [&](const std::string& name) {
    const Environment environment = rank_environment(sources, notes);
    const auto found = environment.find(name);
    return found == environment.end() ? "none" : found->second;
  };
  if (key == "logical") return std::to_string(rank.logical);
  if (key == "ordinal") return std::to_string(rank.ordinal);
  if (key == "visible") return rank.visible.empty() ? "none" : rank.visible;
  if (key == "cpus") return rank.cpus.empty() ? "none" : rank.cpus;
  if (key == "nic") return rank.network.nic.value_or("none");
  if (key == "HCA") return variable("NCCL_IB_HCA");
  if (key == "UCX") return variable("UCX_NET_DEVICES");
  if (key.starts_with("env.")) return variable(key.substr(4));
  ADD_FAILURE() << "no key " << key;
  return {};
}

void check(const Assignment& assigned, const std::string& place, const std::vector<std::string>& words) {
  const Json& map = assigned.record.at("map");
  if (words[0] == "rank") {
    EXPECT_EQ(told(assigned, words), rest_of(words, 4)) << place;
  } else if (words[0] == "together") {
    std::set<std::string> nodes;
    for (std::size_t i = 1; i < words.size(); ++i) nodes.insert(map.at(std::stoul(words[i])).at("node"));
    EXPECT_EQ(nodes.size(), 1U) << place;
  } else if (words[0] == "place") {
    EXPECT_EQ(map.at(std::stoul(words[1])).at("node"), words[2]) << place;
    EXPECT_EQ(map.at(std::stoul(words[1])).at("gpu"), std::stoi(words[3])) << place;
  } else if (words[0] == "note") {
    EXPECT_THAT(assigned.summary, testing::Contains(testing::HasSubstr(rest_of(words, 2)))) << place;
  } else {
    ADD_FAILURE() << place << ": " << words[0];
  }
}

lua::EvaluatedJob job_of(const Case& read) {
  lua::JobOptions options;
  options.sets = read.layout;
  options.sets.push_back("run.communicator=" + read.communicator);
  return lua::evaluate_job(fs::path(RAILYARD_SOURCE_DIR) / "tests/launch/bootstrap/assign.lua", options);
}

class AssignRanks : public testing::TestWithParam<fs::path> {};

TEST_P(AssignRanks, Holds) {
  Case read = read_case(GetParam());
  std::string error;
  Assignment assigned;
  try {
    const auto job = job_of(read);
    const Layout layout = Layout::resolve(job.spec.parallel, static_cast<int>(read.ranks.size()));
    auto site = lua::SiteFile::load_text("return site { name = \"test\",\n" + read.site + "}", "site.lua");
    if (read.fabric) topology::finish_fabric(*read.fabric);
    const AssignmentInput input{job.spec, layout, read.device, read.ranks, site.for_partition(""), read.fabric, &site};
    assigned = assign_ranks(input);
    // Every rank has a coordinate of its own, whatever the order; what goes to it survives the journey.
    std::set<int> logical;
    for (const RankAssignment& rank : assigned.ranks) {
      EXPECT_TRUE(logical.insert(rank.logical).second);
      EXPECT_EQ(RankAssignment::from_json(parse_json(rank.to_json().dump(), "a rank")).to_json(), rank.to_json());
    }
  } catch (const UsageError& failure) {
    error = failure.what();
  }
  for (const auto& [where, words] : read.expectations) {
    if (words[0] == "error") {
      EXPECT_THAT(error, testing::HasSubstr(rest_of(words, 2))) << where;
    } else {
      ASSERT_EQ(error, "") << where;
      check(assigned, where, words);
    }
  }
}

std::vector<fs::path> cases() {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(fs::path(RAILYARD_SOURCE_DIR) / "tests/launch/bootstrap/assign"))
    found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

INSTANTIATE_TEST_SUITE_P(Files, AssignRanks, testing::ValuesIn(cases()), [](const auto& param) {
  std::string name = param.param.stem();
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
});

TEST(ShownByMask, FollowsCuda) {
  const std::vector<SeenGpu> all{
      {"GPU-aa1", "0000:01:00.0", false}, {"GPU-ab2", "0000:02:00.0", false}, {"GPU-b3", "0000:03:00.0", false}};
  const auto names = [&](const std::string& mask) {
    std::string text;
    for (const SeenGpu& gpu : shown_by_mask(all, mask)) text += gpu.uuid + " ";
    return text;
  };
  EXPECT_EQ(names("2,0"), "GPU-b3 GPU-aa1 ");
  EXPECT_EQ(names("GPU-b,GPU-aa"), "GPU-b3 GPU-aa1 ");
  EXPECT_EQ(names("GPU-a"), "") << "two begin so";
  EXPECT_EQ(names("1,-1,0"), "GPU-ab2 ");
  EXPECT_EQ(names("0,7,1"), "GPU-aa1 ");
  EXPECT_EQ(names("1,1"), "");
  EXPECT_EQ(names("NoDevFiles"), "");
  EXPECT_EQ(names("18446744073709551616"), "");
  const std::vector<SeenGpu> mig{
      {"MIG-x", "0000:01:00.0", true}, {"MIG-y", "0000:01:00.0", true}, {"GPU-b3", "0000:03:00.0", false}};
  EXPECT_THAT(shown_by_mask(mig, "0,1"), testing::ElementsAre(mig[0], mig[2]));
  EXPECT_THAT(shown_by_mask(mig, "MIG-y"), testing::ElementsAre(mig[1]));
}

}  // namespace
}  // namespace railyard::launch
