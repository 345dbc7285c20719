// Memory of the worst rank, as the runtime will allocate it, without a device.
#pragma once

#include <optional>

#include "launch/plan/cluster.hpp"
#include "runtime/base/job.hpp"
#include "runtime/base/layout.hpp"

namespace railyard::launch {

struct MemoryFigures {
  int rank = 0, stage = 0;  // the rank that needs most
  double weights_gib = 0, grads_gib = 0, optimizer_gib = 0, activations_gib = 0;
  double other_gib = 0;  // the rest of the arena and, on a GPU, what CUDA and its libraries take
  double total_gib = 0;
  std::optional<double> limit_gib;  // of the device, or of a rank's share of its node; nullopt: unknown
  [[nodiscard]] std::optional<bool> fits() const {
    return limit_gib ? std::optional(total_gib <= *limit_gib) : std::nullopt;
  }
};

// The arena is that of plan_memory() for the device kind of the cluster. Ranks differ by their stage alone; the first,
// the second and the last stage hold most (microbatches in flight fall from stage to stage, inner stages get the odd
// layers, the ends have embedding and head). UsageError when the layout cannot split the model.
[[nodiscard]] MemoryFigures worst_memory(const JobSpec& job, const Layout& layout, const Cluster& cluster);

// One stage of it.
[[nodiscard]] MemoryFigures stage_memory(const JobSpec& job, const Layout& layout, const Cluster& cluster, int stage);

}  // namespace railyard::launch
