// Between a rank's flat arrays and the logical tensors of a checkpoint.
#pragma once

#include "runtime/checkpoint/reader.hpp"
#include "runtime/checkpoint/writer.hpp"
#include "runtime/optim/optimizer.hpp"
#include "runtime/train/executor.hpp"

namespace railyard {

// Adds this rank's share of the weights (fp32 master) and of both moments to a save that has begun.
void save_training_state(CheckpointWriter& writer, Optimizer& optimizer, const ParallelGroups& groups,
                         Backend& backend);

// Reads what this rank holds, from any layout's checkpoint, and publishes the parameters. UsageError when the
// checkpoint lacks a tensor or has another shape. Without `moments` only the weights are read.
void load_training_state(CheckpointReader& reader, Optimizer& optimizer, Backend& backend, bool moments);

// The state of layers, such as the scales of 8-bit numbers: by name, whole, from one rank of each stage.
void save_layer_state(CheckpointWriter& writer, const Executor& executor, const ParallelGroups& groups,
                      Backend& backend);
// A checkpoint of another precision has none: the run then begins without.
void load_layer_state(CheckpointReader& reader, Executor& executor, Backend& backend);

}  // namespace railyard
