// The part of the model that one rank runs: its pipeline pieces with their layers, from shapes alone.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "runtime/base/layout.hpp"
#include "runtime/model/layer.hpp"
#include "runtime/parallel/schedule.hpp"

namespace railyard {

// What the device decides of a rank's memory.
struct MemoryTarget {
  bool host = true;  // host memory, where small chunks of logits are fast
  // Bytes that its attention needs; empty: none.
  std::function<std::size_t(const AttentionShape& shape, DType dtype, bool backward)> attention_workspace;

  static MemoryTarget of(const Backend& backend);  // which must outlive it
};

struct RankModelOptions {
  DType dtype = DType::kFloat32;
  std::uint64_t seed = 0;
  MemoryTarget target;
};

struct RankModel {
  ModelShape shape;
  // layers[chunk] in order of execution; the embedding is in the first virtual stage, the head in the last.
  std::vector<std::vector<std::unique_ptr<Layer>>> chunks;
  bool has_embedding = false, has_head = false;

  // `pieces` says which virtual stage each (stage, chunk) is. UsageError names keys that cannot be split this way.
  static RankModel make(const JobSpec& job, const Layout& layout, const Coordinate& at, const Schedule& schedule,
                        const RankModelOptions& options);

  // The tied output weight is the embedding's parameter on this rank.
  [[nodiscard]] bool tied_here() const { return shape.spec.tied_embeddings && has_embedding && has_head; }
  // The tied weight lives on another stage too, and its gradients are summed over both.
  [[nodiscard]] bool tied_across_stages() const { return shape.spec.tied_embeddings && has_embedding != has_head; }
};

// FLOPs of one training step of the whole model, forward and backward: 6 x matmul parameters x tokens (output head in,
// lookup out) plus causal attention at half; no recompute.
double training_flops(const ModelSpec& model, std::int64_t sequences);

}  // namespace railyard
