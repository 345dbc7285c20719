// Every node of a step checked before ranks start there (launch/health), each by one short task.
#pragma once

#include <string>
#include <vector>

#include "launch/health/node_check.hpp"
#include "launch/process.hpp"

namespace railyard::launch {

// Runs `railyard check-node` on the nodes of this allocation for at most `timeout` seconds in all and compares what
// they say. A node that gives no answer has a fatal finding "no_answer"; a node that keeps srun from starting the
// others is left out and the others asked again. Reports come in the order of `nodes`.
[[nodiscard]] std::vector<NodeReport> check_nodes(const std::vector<std::string>& nodes,
                                                  const NodeCheckOptions& options, const Environment& inherited,
                                                  double timeout);

// The nodes that srun names as failed to launch on in what it says: "Task launch for StepId=5.1 failed on node node2:
// Communication connection failure".
[[nodiscard]] std::vector<std::string> nodes_not_launched(const std::string& said);

}  // namespace railyard::launch
