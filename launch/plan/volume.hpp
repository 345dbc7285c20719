// Bytes that one rank sends per training step along each axis, from shapes alone.
#pragma once

#include "runtime/base/job.hpp"
#include "runtime/base/layout.hpp"

namespace railyard::launch {

// Bytes a rank sends in one step, as a ring collective or point to point sends them.
struct AxisBytes {
  double tp = 0.0;  // activations: gathers and scatters (or all-reduces) around each layer
  double dp = 0.0;  // gradients in fp32 and, with a distributed optimizer, parameters back
  double pp = 0.0;  // activations forward, gradients backward
  double cp = 0.0;
  double ep = 0.0;
};

// The heaviest rank's bytes. `job.model.vocab` must be known.
AxisBytes axis_bytes(const JobSpec& job, const Layout& layout);

// Parameters that one rank of pipeline stage `stage` holds.
double stage_parameters(const JobSpec& job, const Layout& layout, int stage);

}  // namespace railyard::launch
