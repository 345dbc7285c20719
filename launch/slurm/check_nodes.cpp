// Starts the checks and reads their answers.
#include "launch/slurm/check_nodes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <regex>
#include <sstream>

#include "launch/slurm/step.hpp"
#include "runtime/base/error.hpp"

namespace railyard::launch {
namespace {

using Clock = std::chrono::steady_clock;

std::vector<std::string> command_for(const std::vector<std::string>& nodes, const NodeCheckOptions& options) {
  std::vector<std::string> words{"srun",
                                 "--export=ALL",
                                 fmt::format("--nodes={}", nodes.size()),
                                 fmt::format("--ntasks={}", nodes.size()),
                                 "--ntasks-per-node=1",
                                 fmt::format("--nodelist={}", fmt::join(nodes, ",")),
                                 "--mem=0",
                                 "--overlap",
                                 "--mpi=none",
                                 "--label",
                                 "--cpu-bind=none",
                                 "--input=none",
                                 "--no-kill",
                                 "--kill-on-bad-exit=0",
                                 std::filesystem::read_symlink("/proc/self/exe").string(),
                                 "check-node"};
  if (!options.run_dir.empty()) words.push_back(fmt::format("--run-dir={}", options.run_dir.string()));
  if (options.gpus_needed > 0) words.push_back(fmt::format("--gpus={}", options.gpus_needed));
  if (!options.speed) words.push_back("--no-speed");
  return words;
}

// "3: {...}" lines of srun --label.
std::map<std::string, NodeReport> read_reports(const std::string& output) {
  std::map<std::string, NodeReport> reports;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    const auto begin = line.find(": {");
    if (begin == std::string::npos) continue;
    try {
      NodeReport report = NodeReport::from_json(parse_json(line.substr(begin + 2), "a node's report"));
      reports.insert_or_assign(report.node, std::move(report));
    } catch (const UsageError&) {
      continue;  // cut off by the time-out: no answer
    }
  }
  return reports;
}

std::string last_line(std::string text) {
  text.erase(text.find_last_not_of("\n ") + 1);
  return text.substr(text.rfind('\n') + 1);
}

bool is_node(const std::string& host, const std::string& node) {
  return host == node || host.starts_with(node + ".") || node.starts_with(host + ".");
}

}  // namespace

std::vector<std::string> nodes_not_launched(const std::string& said) {
  std::vector<std::string> nodes;
  static const std::regex pattern(R"(Task launch for \S+ failed on node (\S+?):)");
  for (std::sregex_iterator at(said.begin(), said.end(), pattern), end; at != end; ++at)
    if (std::find(nodes.begin(), nodes.end(), at->str(1)) == nodes.end()) nodes.push_back(at->str(1));
  return nodes;
}

std::vector<NodeReport> check_nodes(const std::vector<std::string>& nodes, const NodeCheckOptions& options,
                                    const Environment& inherited, double timeout) {
  const auto end = Clock::now() + std::chrono::duration<double>(timeout);
  const Environment environment = step_environment(inherited);
  std::map<std::string, NodeReport> answers;
  std::string said;
  std::vector<std::string> asked = nodes;
  while (!asked.empty()) {
    const double left = std::chrono::duration<double>(end - Clock::now()).count();
    if (left < 1.0) break;
    const auto result = run_command(command_for(asked, options), left, &environment);
    said += result.errors;
    answers.merge(read_reports(result.output));
    const auto failed = nodes_not_launched(result.errors);
    // Without a name the same question would fail again.
    if (answers.size() >= asked.size() || failed.empty()) break;
    std::erase_if(asked, [&](const std::string& node) {
      return std::find(failed.begin(), failed.end(), node) != failed.end() ||
             std::any_of(answers.begin(), answers.end(), [&](const auto& each) { return is_node(each.first, node); });
    });
  }
  std::vector<NodeReport> reports;
  for (const std::string& node : nodes) {
    const auto found =
        std::find_if(answers.begin(), answers.end(), [&](const auto& each) { return is_node(each.first, node); });
    if (found != answers.end()) {
      reports.push_back(std::move(found->second));
      reports.back().node = node;
      continue;
    }
    NodeReport silent;
    silent.node = node;
    silent.answered = false;
    silent.findings.push_back({"no_answer",
                               fmt::format("gave no answer within {:.0f} s: its slurmd or the node is down, or hangs{}",
                                           timeout, said.empty() ? "" : "; " + last_line(said)),
                               true});
    reports.push_back(std::move(silent));
  }
  compare_nodes(reports);
  return reports;
}

}  // namespace railyard::launch
