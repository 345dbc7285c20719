// The Slurm allocation this process is in, from its variables (man sbatch, OUTPUT ENVIRONMENT VARIABLES).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/process.hpp"

namespace railyard::launch {

struct SlurmAllocation {
  std::string job_id;
  std::vector<std::string> nodes;     // in Slurm's order
  std::vector<int> cpus;              // of each node
  std::optional<int> tasks;           // -n
  std::optional<int> tasks_per_node;  // --ntasks-per-node
  std::optional<int> gpus_per_node;
  std::optional<long> array_task;
  long restart = 0;
};

// UsageError when a variable is malformed.
[[nodiscard]] SlurmAllocation read_allocation(const Environment& environment);

// "4(x2),3" -> 4, 4, 3. UsageError naming `variable` when malformed or longer than `most`.
[[nodiscard]] std::vector<int> expand_counts(const std::string& text, const std::string& variable, std::size_t most);

// The allocation as the ranks see it: without the last `spares` nodes, which stand by. UsageError when none is left.
[[nodiscard]] SlurmAllocation without_spares(SlurmAllocation allocation, int spares);

// How many ranks of `wanted` (0: as many as the allocation asks for, or one a GPU, or `fallback`) run on each node.
// UsageError with the figures when they do not divide evenly, or a node has fewer CPUs or GPUs than ranks.
struct StepShape {
  int ranks = 0, per_node = 0, cpus_per_rank = 1;
};
[[nodiscard]] StepShape shape_step(const SlurmAllocation& allocation, int wanted, int fallback);

}  // namespace railyard::launch
