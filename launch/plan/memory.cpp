// Memory figures from the runtime's own plan.
#include "launch/plan/memory.hpp"

#include <set>

#include "runtime/model/rank_model.hpp"
#include "runtime/tensor/arena.hpp"
#include "runtime/train/trainer.hpp"

namespace railyard::launch {
namespace {

constexpr double kGibibyte = 1024.0 * 1024.0 * 1024.0;
// The CUDA context, library handles, staging buffers and product workspaces: what an H200 shows as used when training
// has started, beyond the arena.
constexpr double kCudaGib = 1.25;

// cuDNN's fused attention keeps the gradient of q in fp32 and a sum per row while it runs backwards.
std::size_t fused_attention_workspace(const AttentionShape& shape, DType, bool backward) {
  if (!backward) return 0;
  return static_cast<std::size_t>(shape.batch * shape.q_heads * shape.length * (shape.d_qk + 1) * 4);
}

MemoryTarget target_of(const Cluster& cluster) {
  MemoryTarget target;
  target.host = !cluster.has_gpus;
  if (cluster.has_gpus) target.attention_workspace = fused_attention_workspace;
  return target;
}

}  // namespace

MemoryFigures stage_memory(const JobSpec& job, const Layout& layout, const Cluster& cluster, int stage) {
  Coordinate at;
  at.pp = stage;
  const ArenaPlan plan = plan_memory(job, layout, at, target_of(cluster));
  const auto gib = [&](MemoryKind kind) { return static_cast<double>(plan.bytes(kind)) / kGibibyte; };
  MemoryFigures figures;
  figures.stage = stage;
  figures.rank = layout.rank_of(0, 0, 0, stage);
  figures.weights_gib = gib(MemoryKind::kWeights);
  figures.grads_gib = gib(MemoryKind::kGradients);
  figures.optimizer_gib = gib(MemoryKind::kOptimizer);
  figures.activations_gib = gib(MemoryKind::kActivations);
  figures.other_gib = gib(MemoryKind::kOther) + (cluster.has_gpus ? kCudaGib : 0.0);
  figures.total_gib = static_cast<double>(plan.bytes()) / kGibibyte + (cluster.has_gpus ? kCudaGib : 0.0);
  if (cluster.has_gpus && cluster.spec) figures.limit_gib = cluster.spec->memory_gib;
  if (!cluster.has_gpus && cluster.node_memory_gib)
    figures.limit_gib = *cluster.node_memory_gib / cluster.slots_per_node();
  return figures;
}

MemoryFigures worst_memory(const JobSpec& job, const Layout& layout, const Cluster& cluster) {
  std::set<int> stages{0, layout.pp - 1};
  if (layout.pp > 2) stages.insert(1);
  MemoryFigures worst;
  for (const int stage : stages)
    if (MemoryFigures figures = stage_memory(job, layout, cluster, stage); figures.total_gib > worst.total_gib)
      worst = figures;
  return worst;
}

}  // namespace railyard::launch
