// Communication volumes of a layout.
#include "launch/plan/volume.hpp"

#include <algorithm>

#include "runtime/train/trainer.hpp"

namespace railyard::launch {

TensorBytes tensor_bytes(const ModelShape& shape) {
  TensorBytes bytes;
  if (shape.tp == 1) return bytes;
  const double whole = static_cast<double>(shape.tokens() * shape.spec.hidden) *
                       static_cast<double>(dtype_size(shape.dtype));  // one activation of all tokens
  const double pass = whole * static_cast<double>(shape.tp - 1) / shape.tp;
  bytes.calls_forward = 4;
  bytes.calls_backward = shape.sequence_parallel ? 6 : 4;
  bytes.block_forward = bytes.calls_forward * pass;
  bytes.block_backward = bytes.calls_backward * pass;
  bytes.embedding = 2 * pass;
  bytes.head = 2 * pass;
  return bytes;
}

double stage_parameters(const JobSpec& job, const Layout& layout, const ModelParts& parts, int stage) {
  const auto blocks = blocks_by_piece(job, layout);
  double elements = 0.0;
  for (std::size_t piece = static_cast<std::size_t>(stage); piece < blocks.size();
       piece += static_cast<std::size_t>(layout.pp))
    elements += static_cast<double>(blocks[piece]) * parameter_elements(*parts.block);
  if (stage == 0) elements += parameter_elements(*parts.embedding);
  if (stage == layout.pp - 1) {
    elements += parameter_elements(*parts.head);
    // On a stage of its own a tied head holds a copy of the embedding's weight.
    if (job.model.tied_embeddings && layout.pp > 1)
      elements += static_cast<double>(parts.shape.vocab_rows() * job.model.hidden);
  }
  return elements;
}

AxisBytes axis_bytes(const JobSpec& job, const Layout& layout) {
  return axis_bytes(job, layout, model_parts(job, layout));
}

AxisBytes axis_bytes(const JobSpec& job, const Layout& layout, const ModelParts& parts) {
  AxisBytes bytes;
  const auto width = static_cast<double>(dtype_size(parts.shape.dtype));
  const auto microbatches = static_cast<double>(microbatches_of(job, layout));
  const TensorBytes tensor = tensor_bytes(parts.shape);
  const auto blocks = blocks_by_piece(job, layout);
  const int replicas = layout.dp * layout.cp;
  for (int stage = 0; stage < layout.pp; ++stage) {
    double sent = (stage == 0 ? tensor.embedding : 0) + (stage == layout.pp - 1 ? tensor.head : 0);
    for (std::size_t piece = static_cast<std::size_t>(stage); piece < blocks.size();
         piece += static_cast<std::size_t>(layout.pp))
      sent += static_cast<double>(blocks[piece]) * (tensor.block_forward + tensor.block_backward);
    bytes.tp = std::max(bytes.tp, sent * microbatches);
    const double share = static_cast<double>(replicas - 1) / replicas;
    const bool sharded = job.train.optimizer.distributed;
    bytes.dp = std::max(bytes.dp, stage_parameters(job, layout, parts, stage) * share * (sharded ? 4.0 + width : 8.0));
  }
  if (layout.pp > 1)
    bytes.pp = static_cast<double>(parts.shape.local_tokens() * job.model.hidden) * width * microbatches * layout.vpp;
  return bytes;
}

Traffic traffic_of(const AxisBytes& bytes) {
  return {{Axis::kTp, bytes.tp},
          {Axis::kCp, bytes.cp},
          {Axis::kDp, bytes.dp},
          {Axis::kPp, bytes.pp},
          {Axis::kEp, bytes.ep}};
}

Traffic traffic_of(const JobSpec& job, const Layout& layout) { return traffic_of(axis_bytes(job, layout)); }

}  // namespace railyard::launch
