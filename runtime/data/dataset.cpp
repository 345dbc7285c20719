// From a window of tokens to a sample: labels, loss mask, positions, document starts.
#include "runtime/data/dataset.hpp"

#include <algorithm>
#include <numeric>

#include "runtime/base/error.hpp"

namespace railyard::data {

Dataset::Dataset(std::int64_t seq_length, std::int64_t size, SampleRules rules)
    : seq_length_(seq_length), size_(size), rules_(rules) {
  RAILYARD_CHECK(seq_length > 0 && size > 0);
  RAILYARD_CHECK(rules.eod >= 0 || !(rules.reset_positions || rules.reset_attention || rules.mask_eod_loss));
}

void Dataset::read(std::int64_t number, const Sample& sample) const {
  const std::size_t length = static_cast<std::size_t>(seq_length_);
  RAILYARD_CHECK(number >= 0 && number < size_, "sample {} of {}", number, size_);
  RAILYARD_CHECK(sample.tokens.size() == length && sample.labels.size() == length);
  RAILYARD_CHECK(sample.loss_mask.empty() || sample.loss_mask.size() == length);
  RAILYARD_CHECK(sample.positions.empty() || sample.positions.size() == length);

  std::vector<std::int32_t> tokens(length + 1);
  const std::size_t count = static_cast<std::size_t>(window(number, tokens));
  RAILYARD_CHECK(count <= length + 1);
  const std::uint32_t limit = rules_.vocab_size > 0 ? static_cast<std::uint32_t>(rules_.vocab_size) : 0x80000000U;
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < count; ++i) largest = std::max(largest, static_cast<std::uint32_t>(tokens[i]));
  if (largest >= limit) {
    const auto bad = std::find_if(tokens.begin(), tokens.end(),
                                  [&](std::int32_t id) { return static_cast<std::uint32_t>(id) >= limit; });
    throw RunError(
        "{}: token id {} is outside the vocabulary of {} (sample {}): the data was made with another tokenizer, or "
        "model.vocab is too small",
        place(number), *bad, rules_.vocab_size > 0 ? std::to_string(rules_.vocab_size) : "non-negative ids", number);
  }
  std::fill(tokens.begin() + static_cast<std::ptrdiff_t>(count), tokens.end(), 0);
  std::copy_n(tokens.begin(), length, sample.tokens.begin());
  std::copy_n(tokens.begin() + 1, length, sample.labels.begin());

  if (!sample.loss_mask.empty()) {
    std::fill(sample.loss_mask.begin(), sample.loss_mask.end(), 1.0F);
    for (std::size_t i = count == 0 ? 0 : count - 1; i < length; ++i)
      sample.loss_mask[i] = 0.0F;  // the label is padding
    if (rules_.mask_eod_loss)
      for (std::size_t i = 0; i < length; ++i)
        if (tokens[i] == rules_.eod) sample.loss_mask[i] = 0.0F;
  }
  if (!sample.positions.empty()) {
    std::iota(sample.positions.begin(), sample.positions.end(), 0);
    if (rules_.reset_positions) {
      std::int32_t position = 0;
      for (std::size_t i = 0; i < length; ++i) {
        sample.positions[i] = position++;
        if (tokens[i] == rules_.eod) position = 0;
      }
    }
  }
  if (sample.document_starts != nullptr) {
    sample.document_starts->clear();
    if (rules_.reset_attention)
      for (std::size_t i = 0; i + 1 < length; ++i)
        if (tokens[i] == rules_.eod) sample.document_starts->push_back(static_cast<std::int32_t>(i + 1));
  }
}

}  // namespace railyard::data
