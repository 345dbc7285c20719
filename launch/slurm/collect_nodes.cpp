// Collects the topology of all nodes of an allocation.
#include "launch/slurm/collect_nodes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "launch/process.hpp"
#include "runtime/base/error.hpp"
#include "runtime/base/json.hpp"
#include "topology/hostlist.hpp"
#include "topology/json.hpp"
#include "topology/sources/source.hpp"
#include "topology/sources/text.hpp"

namespace railyard::launch {
namespace {

constexpr const char* kMarker = "RAILYARD_TOPO_TASK";  // set for the tasks that we start

std::string last_line(const std::string& text) {
  const auto lines = topology::split_lines(text);
  for (auto it = lines.rbegin(); it != lines.rend(); ++it)
    if (!topology::trimmed(*it).empty()) return std::string(topology::trimmed(*it));
  return "no message";
}

// srun --label puts the task number and ": " before each line; lines of tasks come in any order.
std::map<int, std::string> by_task(const std::string& output) {
  std::map<int, std::string> texts;
  for (const auto line : topology::split_lines(output)) {
    const auto colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const auto task = topology::parse_number<int>(topology::trimmed(line.substr(0, colon)));
    if (task) texts[*task] += std::string(line.substr(colon + 1)) + "\n";
  }
  return texts;
}

}  // namespace

bool inside_allocation() {
  return environment_value("SLURM_JOB_ID") && environment_value("SLURM_JOB_NODELIST") && !environment_value(kMarker);
}

topology::Machine collect_nodes(double timeout) {
  const auto hosts =
      topology::expand_hostlist(environment_value("SLURM_JOB_NODELIST").value_or(""), "SLURM_JOB_NODELIST");
  auto environment = current_environment();
  environment[kMarker] = "1";
  const auto count = hosts.size();
  const auto program = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::vector<std::string> command{"srun",
                                         "--overlap",
                                         "--mpi=none",
                                         "--label",
                                         "--unbuffered",
                                         "--cpu-bind=none",
                                         "--kill-on-bad-exit=0",
                                         fmt::format("--nodes={}", count),
                                         fmt::format("--ntasks={}", count),
                                         "--ntasks-per-node=1",
                                         program,
                                         "topo",
                                         "--this-node",
                                         "--json"};
  const auto result = run_command(command, timeout, &environment);
  topology::Machine machine;
  for (const auto& [task, text] : by_task(result.output)) {
    const auto name = fmt::format("task {}", task);
    try {
      auto answer = topology::machine_from_json(parse_json(text, name), name);
      for (auto& node : answer.nodes) machine.nodes.push_back(std::move(node));
    } catch (const UsageError&) {
      continue;  // cut off or an error text: the node is missing below
    }
  }
  if (machine.nodes.empty())
    throw RunError(
        "srun brought no node's topology ({}): {}; try railyard topo on one node, or srun --overlap hostname",
        result.timed_out ? fmt::format("stopped after {} s", timeout) : fmt::format("exit {}", result.status),
        last_line(result.errors));
  for (const auto& host : hosts) {
    const bool answered = std::any_of(machine.nodes.begin(), machine.nodes.end(), [&](const topology::Node& node) {
      return node.name && (*node.name == host || node.name->starts_with(host + "."));
    });
    if (answered) continue;
    topology::Node silent;
    silent.name = host;
    silent.source = "srun";
    silent.warnings.push_back(fmt::format("gave no answer {}: {}",
                                          result.timed_out ? fmt::format("within {} s", timeout) : "to srun",
                                          last_line(result.errors)));
    machine.nodes.push_back(std::move(silent));
  }
  std::sort(machine.nodes.begin(), machine.nodes.end(), [](const topology::Node& a, const topology::Node& b) {
    return topology::natural_less(a.name.value_or(""), b.name.value_or(""));
  });
  const auto fabric = run_command({"scontrol", "show", "topology"}, 10);
  if (fabric.status == 0 && topology::recognise(fabric.output) == topology::SourceKind::kSlurmConf)
    machine.fabric = topology::read_source(fabric.output, "scontrol show topology").fabric;
  return machine;
}

}  // namespace railyard::launch
