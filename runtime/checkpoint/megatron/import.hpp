// Megatron-Core checkpoints (torch_dist) come in: weights, moments, step and consumed samples.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/job.hpp"
#include "runtime/checkpoint/hf/convert.hpp"

namespace railyard {

struct MegatronSettings {
  std::optional<std::int64_t> vocab;  // the tokenizer's size; nothing: as the checkpoint's arguments say
  bool weights_only = false;          // without the optimizer
};

struct ImportedMegatron {
  ModelSpec model;
  std::int64_t step = 0, consumed_samples = 0;
  std::int64_t padded_vocab = 0;  // before the padding was cut off
  std::uint64_t tensors = 0, bytes = 0;
  bool with_optimizer = false;
};

// `folder` is an iteration's folder or the one above it (the newest that latest_checkpointed_iteration.txt names, else
// the highest). Publishes the checkpoint of the same step in `out`. UsageError: not torch_dist, options that cannot be
// expressed, tensors that are missing or do not fit; optimizer state in a form that depends on the layout is refused
// with the remedy.
ImportedMegatron import_megatron(const std::filesystem::path& folder, const std::filesystem::path& out,
                                 const MegatronSettings& settings, const ConvertProgress& progress);

}  // namespace railyard
