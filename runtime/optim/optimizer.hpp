// AdamW over the flat arrays of a rank, replicated or sharded over data-parallel ranks (distributed optimizer, ZeRO-1).
#pragma once

#include <vector>

#include "runtime/optim/parameter_store.hpp"
#include "runtime/parallel/groups.hpp"

namespace railyard {

// What one update did.
struct UpdateResult {
  double gradient_norm = 0.0;  // before clipping
  bool finite = true;          // false: nothing was changed
};

// A parameter run of this rank's share with its optimizer state, for checkpoints. Views of the flat arrays: moments
// fp32; the master weight is `parameter` (fp32), or parameter (bf16) and remainder (uint16) as split_master says.
struct StateRun {
  ParameterRun run;
  Tensor parameter, remainder, exp_avg, exp_avg_sq;
};

class Optimizer {
 public:
  // `store` and `groups` must outlive it.
  Optimizer(ParameterStore& store, const ParallelGroups& groups, const OptimizerSpec& spec, DType dtype);

  void plan(ArenaPlan& plan);
  // Takes the state and the master weights (the store has just been taken) and clears the gradients.
  void take(const Arena& arena, Backend& backend);

  // Starts to sum bucket `index` over data-parallel ranks. Called once a step for each bucket, in the same order on all
  // ranks.
  void start_reduction(int index);
  // Sums what is left, clips and updates. `factor` is applied to every gradient first. Parameters are then on their
  // way; wait for them before use.
  UpdateResult step(double learning_rate, std::int64_t updates_before, double factor);
  // Waits for the parameters of layer `index` (all: -1) that an update left in flight.
  void wait_parameters(int layer);
  // Gradients to zero, before a step's first microbatch.
  void clear_gradients();

  // Everything this rank holds, or (`share`) a part such that every element of a set of data-parallel replicas is in
  // exactly one rank's list.
  [[nodiscard]] std::vector<StateRun> state(bool share);
  // Gathers the parameters, after state() was overwritten from a checkpoint.
  void publish_parameters();

 private:
  struct Shard {
    std::int64_t begin = 0, elements = 0;  // in the flat arrays
    std::int64_t state = 0;                // in the state arrays
  };
  // Consecutive elements that are treated alike.
  struct Segment {
    std::int64_t flat = 0, state = 0, count = 0;
    bool decay = false, counted = false;
  };
  void list_segments();
  void gather_bucket(size_t index);
  [[nodiscard]] Tensor remainder(std::int64_t state_offset, std::int64_t count) const;

  ParameterStore& store_;
  const ParallelGroups& groups_;
  OptimizerSpec spec_;
  DType dtype_;
  bool sharded_;
  Backend* backend_ = nullptr;
  std::vector<Shard> shards_;  // by bucket
  std::vector<Segment> segments_;
  std::int64_t state_elements_ = 0;
  ArenaSlot remainder_slot_, exp_avg_slot_, exp_avg_sq_slot_, scalar_slot_, sum_slot_;
  Tensor remainder_, exp_avg_, exp_avg_sq_, sum_;
  OptimizerScalars scalars_;
  std::vector<Handle> reductions_, gathers_;  // by bucket
};

}  // namespace railyard
