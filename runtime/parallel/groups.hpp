// The groups of one rank: who it communicates with along each axis.
#pragma once

#include <memory>

#include "runtime/base/layout.hpp"
#include "runtime/comm/group.hpp"

namespace railyard {

// Made once per run, collectively. A group of one rank is still a group, so that callers need no special case.
struct ParallelGroups {
  Layout layout;
  Coordinate at;
  Communicator* communicator = nullptr;  // not owned; outlives this
  std::unique_ptr<Group> world;
  std::unique_ptr<Group> tp;
  std::unique_ptr<Group> dp;                                   // replicas of the dense parameters: dp and cp
  std::unique_ptr<Group> same_layers;                          // all ranks of one stage
  std::unique_ptr<Group> pipeline_forward, pipeline_backward;  // the stages; activations and gradients travel apart
  std::unique_ptr<Group> embedding;  // first and last stage, for tied embeddings; null elsewhere or when pp is 1

  // This rank among the replicas of the dense parameters.
  int replicas = 1, replica = 0;

  [[nodiscard]] bool first_stage() const { return at.pp == 0; }
  [[nodiscard]] bool last_stage() const { return at.pp == layout.pp - 1; }
  static ParallelGroups make(const Layout& layout, Communicator& communicator);
  // The coordinates of a rank without anybody to talk to, for planning: all groups are null.
  static ParallelGroups planned(const Layout& layout, const Coordinate& at);
};

}  // namespace railyard
