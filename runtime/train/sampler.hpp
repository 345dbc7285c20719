// Text from a trained model: loads a checkpoint into one rank and continues a prompt token by token.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <vector>

#include "runtime/base/job.hpp"
#include "runtime/compute/backend.hpp"

namespace railyard {

struct SampleOptions {
  std::int64_t tokens = 256;
  double temperature = 1.0;  // 0: always the likeliest token
  std::int64_t top_k = 0;    // 0: all
  std::uint64_t seed = 1;
};

// Calls `emit` with each new token. The context is the last seq_length tokens. `checkpoint` is a step's folder; `job`
// is resolved (vocabulary known). UsageError for an empty prompt or a token outside the vocabulary.
void sample_tokens(JobSpec job, const std::filesystem::path& checkpoint, Backend& backend,
                   std::span<const std::int32_t> prompt, const SampleOptions& options,
                   const std::function<void(std::int32_t)>& emit);

}  // namespace railyard
