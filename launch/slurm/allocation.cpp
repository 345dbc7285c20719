// Reads Slurm's variables and divides ranks over nodes.
#include "launch/slurm/allocation.hpp"

#include <algorithm>
#include <charconv>

#include "runtime/base/error.hpp"
#include "topology/hostlist.hpp"

namespace railyard::launch {
namespace {

std::optional<std::string> value_of(const Environment& environment, const char* name) {
  const auto found = environment.find(name);
  if (found == environment.end() || found->second.empty()) return std::nullopt;
  return found->second;
}

int parse_count(std::string_view text, const std::string& whole, const std::string& variable) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0)
    throw UsageError("{}=\"{}\" is not a list of counts such as 4(x2),3", variable, whole);
  return value;
}

std::optional<int> count_of(const Environment& environment, const char* name) {
  const auto text = value_of(environment, name);
  if (!text) return std::nullopt;
  return parse_count(*text, *text, name);
}

}  // namespace

std::vector<int> expand_counts(const std::string& text, const std::string& variable, std::size_t most) {
  std::vector<int> counts;
  for (std::string_view rest = text; !rest.empty();) {
    const auto comma = rest.find(',');
    const auto item = rest.substr(0, comma);
    const auto open = item.find("(x");
    int times = 1;
    if (open != std::string_view::npos) {
      if (!item.ends_with(')')) parse_count("?", text, variable);
      times = parse_count(item.substr(open + 2, item.size() - open - 3), text, variable);
    }
    const int count = parse_count(item.substr(0, open), text, variable);
    if (counts.size() + static_cast<std::size_t>(times) > most)
      throw UsageError("{}=\"{}\" counts more than the {} nodes of the job", variable, text, most);
    counts.insert(counts.end(), static_cast<std::size_t>(times), count);
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  return counts;
}

SlurmAllocation read_allocation(const Environment& environment) {
  SlurmAllocation allocation;
  allocation.job_id = value_of(environment, "SLURM_JOB_ID").value_or("");
  const auto nodes = value_of(environment, "SLURM_JOB_NODELIST");
  if (!nodes)
    throw UsageError(
        "SLURM_JOB_ID is set, but SLURM_JOB_NODELIST is not; inside a container pass the SLURM_* variables on");
  allocation.nodes = topology::expand_hostlist(*nodes, "SLURM_JOB_NODELIST");
  if (allocation.nodes.empty()) throw UsageError("SLURM_JOB_NODELIST=\"{}\" names no node", *nodes);
  if (const auto cpus = value_of(environment, "SLURM_JOB_CPUS_PER_NODE"))
    allocation.cpus = expand_counts(*cpus, "SLURM_JOB_CPUS_PER_NODE", allocation.nodes.size());
  if (allocation.cpus.size() != allocation.nodes.size()) allocation.cpus.assign(allocation.nodes.size(), 0);
  allocation.tasks = count_of(environment, "SLURM_NTASKS");
  allocation.tasks_per_node = count_of(environment, "SLURM_NTASKS_PER_NODE");
  allocation.gpus_per_node = count_of(environment, "SLURM_GPUS_ON_NODE");
  if (const auto task = value_of(environment, "SLURM_ARRAY_TASK_ID"))
    allocation.array_task = parse_count(*task, *task, "SLURM_ARRAY_TASK_ID");
  allocation.restart = count_of(environment, "SLURM_RESTART_COUNT").value_or(0);
  return allocation;
}

SlurmAllocation without_spares(SlurmAllocation allocation, int spares) {
  if (spares <= 0) return allocation;
  const auto nodes = static_cast<int>(allocation.nodes.size());
  if (spares >= nodes)
    throw UsageError("run.spare_nodes: {}, but Slurm job {} has {} node{}; ask for --nodes={}", spares,
                     allocation.job_id, nodes, nodes == 1 ? "" : "s", spares + 1);
  // Tasks were asked for over all nodes.
  if (allocation.tasks && !allocation.tasks_per_node && *allocation.tasks % nodes == 0)
    allocation.tasks = *allocation.tasks / nodes * (nodes - spares);
  allocation.nodes.resize(static_cast<std::size_t>(nodes - spares));
  allocation.cpus.resize(allocation.nodes.size());
  return allocation;
}

StepShape shape_step(const SlurmAllocation& allocation, int wanted, int fallback) {
  const int nodes = static_cast<int>(allocation.nodes.size());
  StepShape shape;
  if (wanted > 0) {
    shape.ranks = wanted;
  } else if (allocation.tasks_per_node) {
    shape.ranks = *allocation.tasks_per_node * nodes;
  } else if (allocation.tasks && *allocation.tasks > 1) {
    shape.ranks = *allocation.tasks;
  } else if (allocation.gpus_per_node) {
    shape.ranks = *allocation.gpus_per_node * nodes;
  } else {
    shape.ranks = std::max(fallback, nodes);
  }
  if (shape.ranks % nodes != 0)
    throw UsageError(
        "{} ranks do not divide over the {} nodes of Slurm job {}; ask for --ntasks-per-node={} or other --nodes",
        shape.ranks, nodes, allocation.job_id, (shape.ranks + nodes - 1) / nodes);
  shape.per_node = shape.ranks / nodes;
  if (allocation.gpus_per_node && *allocation.gpus_per_node > 0 && shape.per_node > *allocation.gpus_per_node)
    throw UsageError(
        "{} ranks a node, but the allocation has {} GPUs on each: each rank needs one; ask for --gpus-per-node={} or "
        "more nodes",
        shape.per_node, *allocation.gpus_per_node, shape.per_node);
  int fewest = 0;
  for (std::size_t i = 0; i < allocation.nodes.size(); ++i) {
    const int cpus = allocation.cpus[i];
    if (cpus == 0) continue;  // not told
    if (cpus < shape.per_node)
      throw UsageError(
          "the allocation has {} CPU{} on {} for {} ranks; ask for --exclusive, --ntasks-per-node={} or "
          "--cpus-per-task",
          cpus, cpus == 1 ? "" : "s", allocation.nodes[i], shape.per_node, shape.per_node);
    fewest = fewest == 0 ? cpus : std::min(fewest, cpus);
  }
  shape.cpus_per_rank = std::max(1, fewest / shape.per_node);
  return shape;
}

}  // namespace railyard::launch
