// Bytes that one rank sends per training step along each axis, from shapes alone.
#pragma once

#include "launch/place/allocation.hpp"
#include "launch/plan/model_parts.hpp"
#include "runtime/base/job.hpp"
#include "runtime/base/layout.hpp"

namespace railyard::launch {

// Bytes that tensor parallelism sends for one microbatch, as ring collectives send them. An all-reduce is a gather and
// a scatter.
struct TensorBytes {
  double block_forward = 0, block_backward = 0;  // of one block; backward with sequence parallelism gathers once more
  double embedding = 0;                          // its output is summed forward
  double head = 0;                               // its input is gathered forward, its gradient summed
  int calls_forward = 0, calls_backward = 0;     // collectives of a block
};
[[nodiscard]] TensorBytes tensor_bytes(const ModelShape& shape);

// Bytes a rank sends in one step, as a ring collective or point to point sends them.
struct AxisBytes {
  double tp = 0.0;  // activations: gathers and scatters (or all-reduces) around each layer
  double dp = 0.0;  // gradients in fp32 and, with a distributed optimizer, parameters back
  double pp = 0.0;  // activations or their gradients, to one neighbour
  double cp = 0.0;
  double ep = 0.0;
};

// The heaviest rank's bytes. `job.model.vocab` must be known.
[[nodiscard]] AxisBytes axis_bytes(const JobSpec& job, const Layout& layout);
[[nodiscard]] AxisBytes axis_bytes(const JobSpec& job, const Layout& layout, const ModelParts& parts);

// The same as placement takes it.
[[nodiscard]] Traffic traffic_of(const JobSpec& job, const Layout& layout);
[[nodiscard]] Traffic traffic_of(const AxisBytes& bytes);

// Parameters that one rank of pipeline stage `stage` holds.
[[nodiscard]] double stage_parameters(const JobSpec& job, const Layout& layout, const ModelParts& parts, int stage);

}  // namespace railyard::launch
