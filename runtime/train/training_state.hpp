// Between a rank's flat arrays and the logical tensors of a checkpoint.
#pragma once

#include "runtime/checkpoint/reader.hpp"
#include "runtime/checkpoint/writer.hpp"
#include "runtime/optim/optimizer.hpp"

namespace railyard {

// Adds this rank's share of the weights (fp32 master) and of both moments to a save that has begun.
void save_training_state(CheckpointWriter& writer, Optimizer& optimizer, const ParallelGroups& groups,
                         Backend& backend);

// Reads what this rank holds, from any layout's checkpoint, and publishes the parameters. UsageError when the
// checkpoint lacks a tensor or has another shape. Without `moments` only the weights are read.
void load_training_state(CheckpointReader& reader, Optimizer& optimizer, Backend& backend, bool moments);

}  // namespace railyard
