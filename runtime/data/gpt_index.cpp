// Builds GPTDataset indices as megatron/core/datasets/gpt_dataset.py and helpers.cpp do.
#include "runtime/data/gpt_index.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "runtime/base/error.hpp"
#include "runtime/data/numpy_shuffle.hpp"

namespace railyard::data {
namespace {

constexpr std::int64_t kExtra = 1;  // each sample takes one token more than its length, the last label
constexpr std::int64_t kLargestInt32 = std::numeric_limits<std::int32_t>::max();

// All epochs' sequences tiled and shuffled at once, the last epoch apart where the plan says so.
std::vector<std::int32_t> document_index(const GptIndexRequest& request, const EpochPlan& plan,
                                         NumpyRandomState& random) {
  const std::int64_t sequences = request.last - request.first;
  std::vector<std::int32_t> documents(static_cast<std::size_t>(sequences * plan.epochs));
  for (std::int64_t e = 0; e < plan.epochs; ++e)
    std::iota(documents.begin() + e * sequences, documents.begin() + (e + 1) * sequences,
              static_cast<std::int32_t>(request.first));
  const std::size_t together = static_cast<std::size_t>(sequences * (plan.epochs - (plan.separate_last_epoch ? 1 : 0)));
  random.shuffle(std::span(documents).first(together));
  random.shuffle(std::span(documents).subspan(together));
  return documents;
}

// Cuts the chain of documents into samples greedily; neighbours share one token.
template <class T>
std::vector<T> sample_index(std::span<const std::int32_t> lengths, const std::vector<std::int32_t>& documents,
                            std::int64_t seq_length, std::int64_t samples) {
  std::vector<T> rows(static_cast<std::size_t>(2 * (samples + 1)));
  std::size_t document = 0;
  std::int64_t offset = 0;
  for (std::int64_t s = 1; s <= samples; ++s) {
    std::int64_t remaining = seq_length + kExtra;
    while (remaining > 0) {
      const std::int64_t length = lengths[static_cast<std::size_t>(documents[document])];
      const std::int64_t left = length - offset;
      remaining -= left;
      if (remaining <= 0) {
        offset = length + remaining - kExtra;
      } else if (document + 1 == documents.size()) {
        offset = length - kExtra;
        break;
      } else {
        ++document;
        offset = 0;
      }
    }
    rows[static_cast<std::size_t>(2 * s)] = static_cast<T>(document);
    rows[static_cast<std::size_t>(2 * s + 1)] = static_cast<T>(offset);
  }
  return rows;
}

template <class T>
std::vector<T> shuffle_index(const EpochPlan& plan, NumpyRandomState& random) {
  std::vector<T> order(static_cast<std::size_t>(plan.total_samples));
  std::iota(order.begin(), order.end(), T{0});
  const std::size_t together =
      static_cast<std::size_t>(plan.separate_last_epoch ? plan.samples_before_last : plan.total_samples);
  random.shuffle(std::span(order).first(together));
  random.shuffle(std::span(order).subspan(together));
  return order;
}

}  // namespace

EpochPlan plan_epochs(std::int64_t tokens_per_epoch, const GptIndexRequest& request) {
  if (tokens_per_epoch <= 0)
    throw UsageError("the split has no tokens ({} sequences): give it a larger share or leave it out with weight 0",
                     request.last - request.first);
  EpochPlan plan;
  const std::int64_t seq = request.seq_length;
  if (request.samples) {
    constexpr std::int64_t kMostTokens = std::int64_t{1} << 60;
    if (*request.samples > kMostTokens / seq)
      throw UsageError("{} samples of {} tokens: more than can be counted", *request.samples, seq);
    const std::int64_t wanted = *request.samples * seq + kExtra;
    plan.epochs = std::max<std::int64_t>(1, (wanted + tokens_per_epoch - 1) / tokens_per_epoch);
  }
  const std::int64_t usable = plan.epochs * tokens_per_epoch - kExtra;
  if (request.drop_last_partial) {
    plan.total_samples = usable / seq;
  } else {
    plan.total_samples = static_cast<std::int64_t>(std::ceil(static_cast<double>(usable) / static_cast<double>(seq)));
  }
  constexpr std::int64_t kMostEntries = std::int64_t{1} << 36;
  if (plan.total_samples > kMostEntries || plan.epochs > kMostEntries / (request.last - request.first))
    throw UsageError("{} epochs of {} sequences, {} samples: the indices would not fit into memory", plan.epochs,
                     request.last - request.first, plan.total_samples);
  plan.samples_before_last = plan.total_samples;
  if (plan.epochs > 1) {
    plan.samples_before_last = ((plan.epochs - 1) * tokens_per_epoch - kExtra) / seq;
    const std::int64_t from_last = *request.samples - plan.samples_before_last;
    const std::int64_t per_epoch = (tokens_per_epoch - kExtra) / seq;
    plan.separate_last_epoch = from_last < static_cast<std::int64_t>(0.80 * static_cast<double>(per_epoch));
  }
  return plan;
}

GptIndex build_gpt_index(std::span<const std::int32_t> lengths, const GptIndexRequest& request) {
  RAILYARD_CHECK(0 <= request.first && request.first <= request.last &&
                 request.last <= static_cast<std::int64_t>(lengths.size()) && request.seq_length > 0);
  const auto split =
      lengths.subspan(static_cast<std::size_t>(request.first), static_cast<std::size_t>(request.last - request.first));
  const std::int64_t tokens = std::accumulate(split.begin(), split.end(), std::int64_t{0});
  const EpochPlan plan = plan_epochs(tokens, request);
  if (plan.total_samples < 1)
    throw UsageError("the split has {} tokens, too few for one sample of {} + 1", tokens, request.seq_length);
  if (request.last > kLargestInt32)
    throw UsageError("{} sequences: more than an index of 32 bits can number", request.last);

  NumpyRandomState random(request.seed);
  std::vector<std::int32_t> documents = document_index(request, plan, random);
  const std::int64_t longest = *std::max_element(split.begin(), split.end());
  GptIndex index;
  index.epochs = plan.epochs;
  index.separate_last_epoch = plan.separate_last_epoch;
  if (std::max<std::int64_t>(static_cast<std::int64_t>(documents.size()), longest) <= kLargestInt32)
    index.samples = IntArray(sample_index<std::int32_t>(lengths, documents, request.seq_length, plan.total_samples));
  else
    index.samples = IntArray(sample_index<std::int64_t>(lengths, documents, request.seq_length, plan.total_samples));
  if (plan.total_samples < std::int64_t{0xffffffff} - 1)
    index.shuffle = IntArray(shuffle_index<std::uint32_t>(plan, random));
  else
    index.shuffle = IntArray(shuffle_index<std::int64_t>(plan, random));
  index.documents = IntArray(std::move(documents));
  return index;
}

}  // namespace railyard::data
