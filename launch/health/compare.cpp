// Finds the odd node: what one has that most do not.
#include <algorithm>
#include <map>

#include "launch/health/node_check.hpp"
#include "runtime/base/error.hpp"

namespace railyard::launch {
namespace {

// Facts that are equal on like nodes, and what to call them.
constexpr std::pair<const char*, const char*> kEqual[] = {
    {"cpus", "cores that may be used"}, {"gpus", "GPUs"},       {"gpu_name", "kind of GPU"},
    {"memlock_gib", "GiB lockable"},    {"nics_up", "NICs up"}, {"nic_gbps", "Gbit/s of NICs"},
};
// Facts that differ a little; a node far below the median is odd.
constexpr std::pair<const char*, const char*> kSimilar[] = {
    {"memory_gib", "GiB of memory"},
    {"gpu_memory_gib", "GiB of GPU memory"},
    {"gflops_per_core", "GFLOP/s of a core"},
};
constexpr double kFar = 0.7;

std::string shown(const Json& value) { return value.is_null() ? "none known" : value.dump(); }

void compare_equal(std::vector<NodeReport>& reports, const char* key, const char* name) {
  std::map<std::string, std::size_t> counts;
  for (const NodeReport& report : reports)
    if (report.answered) ++counts[shown(report.facts.value(key, Json()))];
  if (counts.size() < 2) return;
  const auto most =
      std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  // Two halves have no odd one.
  std::size_t answered = 0;
  for (const auto& [value, count] : counts) answered += count;
  if (2 * most->second <= answered) return;
  for (NodeReport& report : reports) {
    const std::string mine = shown(report.facts.value(key, Json()));
    if (report.answered && mine != most->first)
      report.findings.push_back({"differs", fmt::format("{}: {}, most nodes have {}", name, mine, most->first), false});
  }
}

void compare_similar(std::vector<NodeReport>& reports, const char* key, const char* name) {
  std::vector<double> values;
  for (const NodeReport& report : reports)
    if (report.answered && report.facts.value(key, Json()).is_number())
      values.push_back(report.facts[key].get<double>());
  if (values.size() < 3) return;
  std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2), values.end());
  const double median = values[values.size() / 2];
  for (NodeReport& report : reports) {
    const Json mine = report.facts.value(key, Json());
    if (report.answered && mine.is_number() && mine.get<double>() < kFar * median)
      report.findings.push_back(
          {"slow_or_small",
           fmt::format("{}: {:.1f}, the median of all nodes is {:.1f}", name, mine.get<double>(), median), false});
  }
}

}  // namespace

void compare_nodes(std::vector<NodeReport>& reports) {
  for (const auto& [key, name] : kEqual) compare_equal(reports, key, name);
  for (const auto& [key, name] : kSimilar) compare_similar(reports, key, name);
}

}  // namespace railyard::launch
