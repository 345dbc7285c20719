// Which layers keep no activations and are computed again in the backward pass (Chen et al. 2016), as Megatron's full
// recomputing has it: "uniform" cuts a chunk's blocks into groups of `layers`, of which only the first input is kept;
// "block" computes the first `layers` blocks of each chunk again, one by one.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/base/job.hpp"

namespace railyard {

// One of the chunk's blocks. Blocks of one group are computed again together, into places of their own.
struct RecomputePlace {
  int place = -1;         // within its group; -1: everything is kept
  bool last = false;      // of its group
  std::size_t first = 0;  // the group's first block, by number within the chunk's blocks
};

// One entry for each of `blocks` blocks. UsageError for "selective".
[[nodiscard]] std::vector<RecomputePlace> recompute_places(const RecomputeSpec& spec, std::size_t blocks);

}  // namespace railyard
