// The nodes of a run inside an allocation: checked before the first start, looked at after each failure, and counted
// when they fail.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "launch/health/node_check.hpp"
#include "launch/outcome.hpp"
#include "launch/slurm/allocation.hpp"
#include "launch/slurm/node_pool.hpp"

namespace railyard::launch {

class StepNodes {
 public:
  // `needed` of the allocation's nodes are used, the others are spares. `inherited` is the environment that steps start
  // from.
  StepNodes(const SlurmAllocation& allocation, int needed, NodeCheckOptions options, Environment inherited);

  // Checks all nodes and prints what is wrong with them; nodes with fatal findings are left out. UsageError when too
  // few are left.
  void check_first();

  // After a failed start: which nodes are gone, what the ranks were in, and where it began.
  void inspect(Ending& ending);

  // Counts the failure; false, with a line, when too few nodes are left for another start.
  bool may_restart(const Ending& ending);

  // The nodes of the next start.
  [[nodiscard]] std::vector<std::string> chosen() const { return pool_.choose().value(); }
  // Operations per second of the fastest core of all nodes, 0: not measured.
  [[nodiscard]] double fastest_core() const { return fastest_core_; }

 private:
  void lose(const std::string& node, Ending& ending);
  bool out_of_memory(const NodeReport& report);

  std::string job_id_;
  NodePool pool_;
  NodeCheckOptions options_;
  Environment inherited_;
  double fastest_core_ = 0.0;
  std::map<std::string, long> oom_kills_;  // by node, so far
};

}  // namespace railyard::launch
