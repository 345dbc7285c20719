// All that a rank holds for training, planned in one arena: model, flat parameters, optimizer, executor, batches.
#pragma once

#include "runtime/optim/optimizer.hpp"
#include "runtime/train/batch.hpp"
#include "runtime/train/executor.hpp"

namespace railyard {

class RankState {
 public:
  RankState(const JobSpec& job, const ParallelGroups& groups, const MemoryTarget& target);

  [[nodiscard]] const ArenaPlan& plan() const { return plan_; }
  // Allocates the arena and fills initial weights. UsageError when the device is too small: says by how much and for
  // what.
  void take(Backend& backend, std::uint64_t seed);

  RankModel model;
  ParameterStore store;
  Optimizer optimizer;
  Executor executor;
  BatchFeeder feeder;
  Tensor losses;  // [microbatches] fp64: of the last step or evaluation batch, on the last stage

 private:
  ArenaPlan plan_;
  ArenaSlot losses_slot_;
  Arena arena_;
};

}  // namespace railyard
