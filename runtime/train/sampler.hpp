// Text from a trained model: a checkpoint in one rank, asked for logits, and a prompt continued token by token.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "runtime/base/job.hpp"
#include "runtime/compute/backend.hpp"

namespace railyard {

// The weights of a checkpoint in one rank of `backend`, which must outlive it. `job` is resolved (vocabulary known);
// its layout and batch do not matter. `checkpoint` is a step's folder. UsageError when they do not fit.
class LoadedModel {
 public:
  LoadedModel(JobSpec job, const std::filesystem::path& checkpoint, Backend& backend);
  ~LoadedModel();
  LoadedModel(LoadedModel&&) noexcept;
  LoadedModel& operator=(LoadedModel&&) noexcept;
  // Logits [vocab] of the token after `tokens`, of which the last seq_length count. UsageError: no token, or one
  // outside the vocabulary.
  [[nodiscard]] std::vector<float> logits(std::span<const std::int32_t> tokens);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct SampleOptions {
  std::int64_t tokens = 256;
  double temperature = 1.0;  // 0: always the likeliest token
  std::int64_t top_k = 0;    // 0: all
  std::uint64_t seed = 1;
};

// Calls `emit` with each new token. UsageError for an empty prompt or a token outside the vocabulary.
void sample_tokens(LoadedModel& model, std::span<const std::int32_t> prompt, const SampleOptions& options,
                   const std::function<void(std::int32_t)>& emit);

}  // namespace railyard
