// Gradient reduction, clipping, AdamW and parameter gathering by buckets.
#include "runtime/optim/optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace railyard {

Optimizer::Optimizer(ParameterStore& store, const ParallelGroups& groups, const OptimizerSpec& spec, DType dtype)
    : store_(store), groups_(groups), spec_(spec), dtype_(dtype), sharded_(spec.distributed && groups.replicas > 1) {
  if (spec.type != "adamw") throw UsageError("train.optimizer.type: \"{}\" is not adamw", spec.type);
  for (const Bucket& bucket : store.buckets()) {
    Shard shard{.begin = bucket.begin, .elements = bucket.elements, .state = state_elements_};
    if (sharded_) {
      shard.elements = bucket.elements / groups.replicas;
      shard.begin += shard.elements * groups.replica;
    }
    state_elements_ += shard.elements;
    shards_.push_back(shard);
  }
  reductions_.resize(shards_.size());
  gathers_.resize(shards_.size());
  list_segments();
}

void Optimizer::list_segments() {
  const bool first_replica = sharded_ || groups_.replica == 0;
  for (const Shard& shard : shards_) {
    for (const ParameterRun& run : store_.runs(shard.begin, shard.elements)) {
      const ParameterSpec& spec = run.parameter->spec;
      const bool counted = first_replica && !spec.tied_copy && (spec.split_over_tp || groups_.at.tp == 0);
      const Segment segment{run.flat, shard.state + run.flat - shard.begin, run.count, spec.decay, counted};
      // Padding between parameters holds zeros: a segment may run across it.
      if (!segments_.empty() && segments_.back().decay == segment.decay && segments_.back().counted == counted &&
          segments_.back().state >= shard.state) {
        segments_.back().count = segment.flat + segment.count - segments_.back().flat;
      } else {
        segments_.push_back(segment);
      }
    }
  }
}

void Optimizer::plan(ArenaPlan& plan) {
  if (dtype_ != DType::kFloat32)
    remainder_slot_ =
        plan.add("remainders of master weights", MemoryKind::kOptimizer, DType::kUInt16, Shape{state_elements_});
  exp_avg_slot_ = plan.add("exp_avg", MemoryKind::kOptimizer, DType::kFloat32, Shape{state_elements_});
  exp_avg_sq_slot_ = plan.add("exp_avg_sq", MemoryKind::kOptimizer, DType::kFloat32, Shape{state_elements_});
  scalar_slot_ = plan.add("optimizer scalars", MemoryKind::kOther, DType::kFloat32, Shape{OptimizerScalars::kCount});
  sum_slot_ = plan.add("gradient norm", MemoryKind::kOther, DType::kFloat64, Shape{1});
}

void Optimizer::take(const Arena& arena, Backend& backend) {
  backend_ = &backend;
  exp_avg_ = arena.tensor(exp_avg_slot_);
  exp_avg_sq_ = arena.tensor(exp_avg_sq_slot_);
  sum_ = arena.tensor(sum_slot_);
  scalars_.values = arena.tensor(scalar_slot_);
  backend.zero(exp_avg_);
  backend.zero(exp_avg_sq_);
  if (dtype_ != DType::kFloat32) {
    remainder_ = arena.tensor(remainder_slot_);
    for (const Shard& shard : shards_)
      backend.split_master(store_.gradients().flat(shard.begin, shard.elements),
                           store_.values().flat(shard.begin, shard.elements),
                           remainder_.flat(shard.state, shard.elements));
  }
  clear_gradients();
}

Tensor Optimizer::remainder(std::int64_t state_offset, std::int64_t count) const {
  return remainder_.defined() ? remainder_.flat(state_offset, count) : Tensor{};
}

void Optimizer::clear_gradients() { store_.clear_gradients(*backend_); }

void Optimizer::start_reduction(int index) {
  const auto i = static_cast<size_t>(index);
  if (groups_.replicas == 1) return;
  const Bucket& bucket = store_.buckets()[i];
  const Tensor whole = store_.gradients().flat(bucket.begin, bucket.elements);
  reductions_[i] =
      sharded_ ? groups_.dp->reduce_scatter(whole, store_.gradients().flat(shards_[i].begin, shards_[i].elements))
               : groups_.dp->all_reduce(whole, ReduceOp::kSum);
}

UpdateResult Optimizer::step(double rate, std::int64_t updates_before, double factor) {
  if (const Tensor partial = store_.gradients_to_sum_over_tp(); partial.elements() > 0 && groups_.tp->size() > 1)
    groups_.tp->all_reduce(partial, ReduceOp::kSum).wait();
  if (const Tensor tied = store_.tied_gradient(); tied.defined())
    groups_.embedding->all_reduce(tied, ReduceOp::kSum).wait();
  for (size_t i = 0; i < shards_.size(); ++i)
    if (store_.buckets()[i].at_end) start_reduction(static_cast<int>(i));
  for (Handle& reduction : reductions_) reduction.wait();

  const auto updates = static_cast<double>(updates_before + 1);
  float scalars[OptimizerScalars::kCount] = {};
  scalars[OptimizerScalars::kLearningRate] = static_cast<float>(rate);
  scalars[OptimizerScalars::kBiasCorrection1] = static_cast<float>(1.0 - std::pow(spec_.beta1, updates));
  scalars[OptimizerScalars::kBiasCorrection2] = static_cast<float>(1.0 - std::pow(spec_.beta2, updates));
  backend_->copy_from_host(std::as_bytes(std::span(scalars)), scalars_.values);
  backend_->zero(sum_);
  for (const Segment& segment : segments_)
    if (segment.counted) backend_->squared_norm(store_.gradients().flat(segment.flat, segment.count), sum_);
  if (groups_.world->size() > 1) groups_.world->all_reduce(sum_, ReduceOp::kSum).wait();
  backend_->clip_scale(sum_, static_cast<float>(factor), static_cast<float>(spec_.clip_grad), scalars_);
  for (const Segment& segment : segments_) {
    backend_->adamw({.parameter = store_.values().flat(segment.flat, segment.count),
                     .remainder = remainder(segment.state, segment.count),
                     .exp_avg = exp_avg_.flat(segment.state, segment.count),
                     .exp_avg_sq = exp_avg_sq_.flat(segment.state, segment.count),
                     .grad = store_.gradients().flat(segment.flat, segment.count),
                     .beta1 = static_cast<float>(spec_.beta1),
                     .beta2 = static_cast<float>(spec_.beta2),
                     .epsilon = static_cast<float>(spec_.eps),
                     .weight_decay = segment.decay ? static_cast<float>(spec_.weight_decay) : 0.0F},
                    scalars_);
  }
  if (sharded_)
    for (size_t i = 0; i < shards_.size(); ++i) gather_bucket(i);
  backend_->copy_to_host(scalars_.values, std::as_writable_bytes(std::span(scalars)));
  return {scalars[OptimizerScalars::kGradientNorm], scalars[OptimizerScalars::kFinite] != 0.0F};
}

void Optimizer::gather_bucket(size_t index) {
  const Bucket& bucket = store_.buckets()[index];
  const Shard& shard = shards_[index];
  gathers_[index] = groups_.dp->all_gather(store_.values().flat(shard.begin, shard.elements),
                                           store_.values().flat(bucket.begin, bucket.elements));
}

void Optimizer::wait_parameters(int layer) {
  for (size_t i = 0; i < gathers_.size(); ++i) {
    const auto& layers = store_.buckets()[i].layers;
    if (layer < 0 || std::find(layers.begin(), layers.end(), layer) != layers.end()) gathers_[i].wait();
  }
}

std::vector<StateRun> Optimizer::state(bool share_only) {
  std::vector<StateRun> runs;
  for (const Shard& shard : shards_) {
    Shard share = shard;
    if (share_only && !sharded_) {  // replicas share the writing
      const std::int64_t size = groups_.replicas, rank = groups_.replica;
      share.begin = shard.begin + shard.elements * rank / size;
      share.elements = shard.begin + shard.elements * (rank + 1) / size - share.begin;
    }
    for (const ParameterRun& run : store_.runs(share.begin, share.elements)) {
      const std::int64_t offset = shard.state + run.flat - shard.begin;
      runs.push_back({run, store_.values().flat(run.flat, run.count), remainder(offset, run.count),
                      exp_avg_.flat(offset, run.count), exp_avg_sq_.flat(offset, run.count)});
    }
  }
  return runs;
}

void Optimizer::publish_parameters() {
  if (sharded_)
    for (size_t i = 0; i < shards_.size(); ++i) gather_bucket(i);
  wait_parameters(-1);
}

}  // namespace railyard
