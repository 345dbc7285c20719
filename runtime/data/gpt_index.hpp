// The three indices of Megatron-Core's GPTDataset, bit for bit: which documents in which order, where each sample
// starts, and in which order samples are used.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "runtime/data/int_array.hpp"

namespace railyard::data {

struct GptIndexRequest {
  std::int64_t first = 0, last = 0;  // sequences [first, last) of the file make the split
  std::int64_t seq_length = 0;
  std::optional<std::int64_t> samples;  // needed; nothing: one epoch
  std::uint32_t seed = 1234;
  bool drop_last_partial = true;  // false: a last sample that is short counts too (and is padded)
};

struct GptIndex {
  IntArray documents;  // int32: the sequences of all epochs, shuffled
  IntArray samples;    // int32 or int64, 2 (n + 1) elements: position in `documents`, token offset
  IntArray shuffle;    // uint32 or int64, n elements: sample number -> row of `samples`
  std::int64_t epochs = 1;
  bool separate_last_epoch = false;  // the last epoch is shuffled by itself: it is used by less than 80 %
};

// How many epochs a request takes, from the tokens of one. UsageError when there are none (an empty split never ends).
struct EpochPlan {
  std::int64_t epochs = 1;
  bool separate_last_epoch = false;
  std::int64_t total_samples = 0;        // rows that can be used, over all epochs
  std::int64_t samples_before_last = 0;  // of these, from all epochs but the last
};
EpochPlan plan_epochs(std::int64_t tokens_per_epoch, const GptIndexRequest& request);

// Builds the indices from the lengths of the file's sequences. UsageError: no tokens, or too few for one sample.
GptIndex build_gpt_index(std::span<const std::int32_t> lengths, const GptIndexRequest& request);

}  // namespace railyard::data
