// Opens the data of a job: tokenizer, splits, sample counts, the digest of the order.
#include <array>

#include "runtime/base/error.hpp"
#include "runtime/data/dataset.hpp"
#include "runtime/data/digest.hpp"
#include "runtime/data/mock_dataset.hpp"
#include "runtime/data/sources.hpp"
#include "runtime/data/split.hpp"
#include "runtime/data/text_dataset.hpp"
#include "runtime/data/tokenizer/char_tokenizer.hpp"

namespace railyard::data {
namespace {

constexpr std::array<const char*, 3> kSplits{"train", "valid", "test"};

std::filesystem::path rooted(const std::string& path, const DataOptions& options) {
  const std::filesystem::path given(path);
  return given.is_absolute() || options.data_root.empty() ? given : options.data_root / given;
}

std::filesystem::path cache_folder(const JobSpec& job, const DataOptions& options) {
  return job.data.cache.empty() ? options.run_dir / "cache" : rooted(job.data.cache, options);
}

std::array<std::int64_t, 3> as_array(const SampleCounts& counts) { return {counts.train, counts.valid, counts.test}; }

std::array<std::unique_ptr<Dataset>, 3> open_text(const JobSpec& job, const DataOptions& options, Tokenizer* tokenizer,
                                                  const SampleRules& rules) {
  if (tokenizer == nullptr)
    throw UsageError("data.tokenizer: needed with data.text, for instance tokenizer = { type = \"char\" }");
  const std::string shares = job.data.split.empty() ? kDefaultSplit : job.data.split;
  const auto text =
      std::make_shared<const TextTokens>(rooted(job.data.text, options), *tokenizer, cache_folder(job, options));
  const auto bounds = split_bounds(parse_split(shares), text->size(), SplitRounding::kDown);
  std::array<std::unique_ptr<Dataset>, 3> splits;
  const auto counts = as_array(sample_counts(job));
  for (std::size_t i = 0; i < 3; ++i) {
    if (counts[i] == 0) continue;
    const TextDataset::Range range{kSplits[i], bounds[i], bounds[i + 1]};
    const std::int64_t tokens = range.last - range.first;
    if (i == 2 && tokens <= job.model.seq_length) continue;  // the test split is not asked for by name
    if (tokens <= job.model.seq_length)
      throw UsageError(
          "{}: the {} split (data.split = \"{}\") has {} of {} tokens, and a sample takes model.seq_length + 1 = {}",
          text->name(), range.split, shares, tokens, text->size(), job.model.seq_length + 1);
    splits[i] = std::make_unique<TextDataset>(text, range, job, counts[i], rules);
  }
  return splits;
}

std::array<std::unique_ptr<Dataset>, 3> open_mock(const JobSpec& job, const SampleRules& rules) {
  if (rules.vocab_size == 0)
    throw UsageError("model.vocab: \"auto\" needs a tokenizer; with data.mock give the number");
  std::array<std::unique_ptr<Dataset>, 3> splits;
  const auto counts = as_array(sample_counts(job));
  for (std::size_t i = 0; i < 3; ++i)
    if (counts[i] > 0)
      splits[i] = std::make_unique<MockDataset>(kSplits[i], job.train.seed, job.model.seq_length, counts[i], rules);
  return splits;
}

// The rules of samples, and the vocabulary that ids must lie in.
SampleRules sample_rules(const JobSpec& job, const Tokenizer* tokenizer) {
  SampleRules rules;
  const std::int64_t own = tokenizer != nullptr ? tokenizer->vocab_size() : 0;
  if (own > INT32_MAX || job.model.vocab > INT32_MAX) throw UsageError("model.vocab: larger than 2^31");
  if (own > 0 && job.model.vocab > 0 && job.model.vocab < own)
    throw UsageError("model.vocab: {} is smaller than the {} tokens of data.tokenizer; give \"auto\"", job.model.vocab,
                     own);
  rules.vocab_size = static_cast<std::int32_t>(job.model.vocab > 0 ? job.model.vocab : own);
  rules.reset_positions = job.data.reset_position_ids;
  rules.reset_attention = job.data.reset_attention_mask;
  rules.mask_eod_loss = job.data.eod_mask_loss;
  if (rules.reset_positions || rules.reset_attention || rules.mask_eod_loss) {
    const auto eod = tokenizer != nullptr ? tokenizer->eod() : std::nullopt;
    if (!eod)
      throw UsageError("data.{}: needs a tokenizer with an end-of-document token",
                       rules.reset_positions   ? "reset_position_ids"
                       : rules.reset_attention ? "reset_attention_mask"
                                               : "eod_mask_loss");
    rules.eod = *eod;
  }
  return rules;
}

}  // namespace

SampleCounts sample_counts(const JobSpec& job) {
  SampleCounts counts;
  counts.train = job.train.iterations * job.train.global_batch;
  if (job.eval.every > 0 && job.eval.batches > 0) {
    counts.valid = (job.train.iterations / job.eval.every + 1) * job.eval.batches * job.train.global_batch;
    counts.test = job.eval.batches * job.train.global_batch;
  }
  return counts;
}

std::unique_ptr<Tokenizer> job_tokenizer(const JobSpec& job, const DataOptions& options) {
  if (!job.data.tokenizer) return nullptr;
  TokenizerSpec spec = *job.data.tokenizer;
  if (!spec.path.empty()) {
    spec.path = rooted(spec.path, options).string();
  } else if (spec.type == "char") {
    if (job.data.text.empty())
      throw UsageError(
          "data.tokenizer.path: type \"char\" takes its characters from a text: name it, or set data.text");
    spec.path = rooted(job.data.text, options).string();
  }
  return open_tokenizer(spec);
}

DataSplits open_splits(const JobSpec& job, const DataOptions& options) {
  if (job.data.sampling != "sequential" && job.data.sampling != "random")
    throw UsageError("data.sampling: \"{}\": expected \"sequential\" or \"random\"", job.data.sampling);
  const bool lists = !job.data.train.empty() || !job.data.valid.empty() || !job.data.test.empty();
  if ((job.data.text.empty() ? 0 : 1) + (job.data.mock ? 1 : 0) + (lists ? 1 : 0) != 1)
    throw UsageError("data: give one of train = { { path = ... } }, text = \"FILE\" or mock = true");
  if (lists && job.data.sampling == "random")
    throw UsageError(
        "data.sampling: \"random\" goes with data.text; files are read in Megatron's order, \"sequential\"");
  if (job.train.seed > UINT32_MAX && !job.data.mock && job.data.sampling == "sequential")
    throw UsageError("train.seed: {}: the sample order of sequential data takes a seed below 2^32", job.train.seed);

  if (job.train.iterations < 1 || job.train.global_batch < 1 || job.model.seq_length < 1)
    throw UsageError("train.iterations, train.global_batch, model.seq_length: must be at least 1");

  DataSplits data;
  data.tokenizer = job_tokenizer(job, options);
  const SampleRules rules = sample_rules(job, data.tokenizer.get());
  data.vocab_size = data.tokenizer ? data.tokenizer->vocab_size() : job.model.vocab;
  std::array<std::unique_ptr<Dataset>, 3> splits;
  if (job.data.mock)
    splits = open_mock(job, rules);
  else if (!job.data.text.empty())
    splits = open_text(job, options, data.tokenizer.get(), rules);
  else
    splits = open_sources(job, cache_folder(job, options), rules,
                          [&](const std::string& path) { return rooted(path, options); });
  RAILYARD_CHECK(splits[0] != nullptr);
  data.train = std::move(splits[0]);
  data.valid = std::move(splits[1]);
  data.test = std::move(splits[2]);
  data.order = data.train->order();
  data.order["rules"] = Json{{"eod", rules.eod},
                             {"reset_position_ids", rules.reset_positions},
                             {"reset_attention_mask", rules.reset_attention},
                             {"eod_mask_loss", rules.mask_eod_loss}};
  data.digest = digest_of(data.order.dump());
  return data;
}

}  // namespace railyard::data
