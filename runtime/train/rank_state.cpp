// Plans and allocates a rank's memory.
#include "runtime/train/rank_state.hpp"

#include "runtime/train/trainer.hpp"

namespace railyard {
namespace {

RankModel make_model(const JobSpec& job, const ParallelGroups& groups, const MemoryTarget& target) {
  const RankModelOptions options{.dtype = compute_dtype(job.train.precision), .seed = job.train.seed, .target = target};
  return RankModel::make(job, groups.layout, groups.at, make_schedule(job, groups.layout), options);
}

double gib(std::size_t bytes) { return static_cast<double>(bytes) / static_cast<double>(std::size_t{1} << 30); }

}  // namespace

RankState::RankState(const JobSpec& job, const ParallelGroups& groups, const MemoryTarget& target)
    : model(make_model(job, groups, target)),
      store(model, groups.layout.dp * groups.layout.cp, job.parallel.bucket_size),
      optimizer(store, groups, job.train.optimizer, model.shape.dtype),
      executor(model, groups, make_schedule(job, groups.layout), job.train.recompute),
      feeder(model.shape, executor.schedule().microbatches, groups.at.dp, groups.layout.dp) {
  store.plan(plan_);
  optimizer.plan(plan_);
  executor.plan(plan_);
  feeder.plan(plan_);
  losses_slot_ = plan_.add("losses", MemoryKind::kOther, DType::kFloat64, Shape{executor.schedule().microbatches});
}

void RankState::take(Backend& backend, std::uint64_t seed) {
  const std::size_t limit = backend.memory_limit(), used = backend.memory_in_use();
  if (limit > 0 && plan_.bytes() + used > limit)
    throw UsageError(
        "out of memory before step 0: {} needs {:.2f} GiB (weights {:.2f}, gradients {:.2f}, optimizer {:.2f}, "
        "activations {:.2f}, "
        "other {:.2f}) and has {:.2f} GiB; use a smaller train.micro_batch, more parallel.tp or parallel.pp, or "
        "train.optimizer.distributed",
        backend.description(), gib(plan_.bytes()), gib(plan_.bytes(MemoryKind::kWeights)),
        gib(plan_.bytes(MemoryKind::kGradients)), gib(plan_.bytes(MemoryKind::kOptimizer)),
        gib(plan_.bytes(MemoryKind::kActivations)), gib(plan_.bytes(MemoryKind::kOther)), gib(limit - used));
  arena_ = Arena(backend, plan_);
  store.take(arena_, backend, seed);
  optimizer.take(arena_, backend);
  executor.take(arena_, backend);
  feeder.take(arena_, backend);
  losses = arena_.tensor(losses_slot_);
}

}  // namespace railyard
