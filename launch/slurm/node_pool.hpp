// Which nodes of an allocation the next start runs on: spares (run.spare_nodes) stand by, and take the place of nodes
// that Slurm has lost, that do not answer, or that have failed twice.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace railyard::launch {

class NodePool {
 public:
  // The first `needed` of `nodes` (in Slurm's order) are used, the others are spares.
  NodePool(std::vector<std::string> nodes, int needed);

  // The node is gone for good; false when it was known already, or is none of ours.
  bool lose(const std::string& node);
  // The node was the cause of a failed start; true when it is left out from now on: the second time, if enough others
  // are left.
  bool fail(const std::string& node);

  // The nodes of the next start, in Slurm's order; nothing when too few are left.
  [[nodiscard]] std::optional<std::vector<std::string>> choose() const;
  [[nodiscard]] int spares() const;  // usable nodes beyond what a start needs, 0 or more
  [[nodiscard]] int needed() const { return needed_; }
  [[nodiscard]] std::vector<std::string> usable() const;

 private:
  std::vector<std::string> nodes_;
  int needed_;
  std::map<std::string, int> failures_;
  std::vector<std::string> out_;
};

}  // namespace railyard::launch
