// A look at the node this process runs on before a run starts: what its devices, limits and disks are, and what is
// wrong with them. Takes a few seconds at most, whatever the size of the run.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "launch/activity_files.hpp"
#include "runtime/base/json.hpp"

namespace railyard::launch {

struct NodeCheckOptions {
  std::filesystem::path run_dir;  // its disk is looked at, and what earlier ranks of it have left
  int gpus_needed = 0;            // ranks of this node that need a GPU
  bool speed = true;              // measure a short matrix product
};

struct Finding {
  std::string word;    // "gpu_ecc", "no_answer", ...
  std::string text;    // one line with the remedy
  bool fatal = false;  // a run there fails or would be wrong
};

struct NodeReport {
  std::string node;
  bool answered = true;
  // Comparable facts: "cpus", "memory_gib", "memlock_gib" (null: unlimited), "shm_free_gib", "scratch_free_gib",
  // "run_free_gib", "gpus" (null: no driver answers), "gpu_name", "gpu_memory_gib", "nics_up", "nic_gbps",
  // "gflops_per_core", "gpu_tflops" (a list),
  // "oom_kills" (of our control group). Null is unknown.
  Json facts = Json::object();
  std::vector<Finding> findings;
  std::vector<RankSight> ranks;  // what ranks of the run directory are in or left behind

  [[nodiscard]] Json to_json() const;
  static NodeReport from_json(const Json& json);
};

[[nodiscard]] NodeReport check_this_node(const NodeCheckOptions& options);

// What one node has that most do not: GPU count and kind, memory, limits, NICs; speed when it is below 0.7 times the
// median. One finding a node and fact, none fatal. Nothing is said of fewer than three nodes unless values are counts.
void compare_nodes(std::vector<NodeReport>& reports);

}  // namespace railyard::launch
