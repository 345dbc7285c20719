// Prepares and reads plain text.
#include "runtime/data/text_dataset.hpp"

#include <unistd.h>

#include "runtime/base/error.hpp"
#include "runtime/base/json.hpp"
#include "runtime/base/philox.hpp"
#include "runtime/data/digest.hpp"
#include "runtime/data/output_file.hpp"

namespace railyard::data {
namespace {

constexpr const char* kKind = "railyard text tokens 1";

// The ids as bytes of the narrowest type of a Megatron file.
std::string pack(std::span<const std::int32_t> ids, TokenType type) {
  std::string bytes(ids.size() * token_size(type), '\0');
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (type == TokenType::kUInt16) {
      const auto value = static_cast<std::uint16_t>(ids[i]);
      std::memcpy(bytes.data() + 2 * i, &value, 2);
    } else {
      std::memcpy(bytes.data() + 4 * i, &ids[i], 4);
    }
  }
  return bytes;
}

std::filesystem::path header_path(const std::filesystem::path& cache, const std::string& key) {
  return cache / ("text-" + key + ".json");
}

// Whether the header, which is written after the tokens, is there and fits.
bool is_prepared(const std::filesystem::path& header, const std::string& key, const std::filesystem::path& tokens,
                 std::int64_t& size) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(header, error)) return false;
  try {
    const Json json = read_json_file(header);
    if (json.at("kind") != kKind || json.at("key") != key) return false;
    size = json.at("tokens").get<std::int64_t>();
    const std::string digest = json.at("digest").get<std::string>();
    const MappedFile file(tokens);
    return size > 0 && file.size() == json.at("bytes").get<std::uint64_t>() && sampled_digest(file.bytes()) == digest;
  } catch (const std::exception&) {
    return false;  // a damaged cache is made again
  }
}

}  // namespace

TextTokens::TextTokens(const std::filesystem::path& text, Tokenizer& tokenizer, const std::filesystem::path& cache)
    : name_(text.string()), type_(token_type_for(tokenizer.vocab_size())) {
  const MappedFile source(text);
  if (source.size() == 0) throw UsageError("{}: data.text: the file is empty", name_);
  digest_ = digest_of(digest_of(source.text()) + tokenizer.fingerprint());
  const auto header = header_path(cache, digest_);
  const auto tokens = cache / ("text-" + digest_ + ".bin");
  if (!is_prepared(header, digest_, tokens, size_)) {
    std::vector<std::int32_t> ids;
    try {
      tokenizer.encode(source.text(), ids);
    } catch (const UsageError& error) {
      throw UsageError("{}: {}", name_, error.what());
    }
    if (ids.empty()) throw UsageError("{}: data.text: the text gives no tokens", name_);
    size_ = static_cast<std::int64_t>(ids.size());
    const std::string bytes = pack(ids, type_);
    std::error_code error;
    std::filesystem::create_directories(cache, error);
    if (error)
      throw RunError("{}: cannot create the cache folder: {}; set data.cache to a writable one", cache.string(),
                     error.message());
    {
      OutputFile out(aside_path(tokens));
      out.write(std::as_bytes(std::span(bytes)));
      out.publish(tokens);
    }
    write_file_atomic(header, Json{{"kind", kKind},
                                   {"key", digest_},
                                   {"text", name_},
                                   {"tokens", size_},
                                   {"bytes", bytes.size()},
                                   {"digest", sampled_digest(std::as_bytes(std::span(bytes)))}}
                                      .dump(2) +
                                  "\n");
  }
  file_ = MappedFile(tokens);
  if (file_.size() != static_cast<std::size_t>(size_) * token_size(type_))
    throw RunError("{}: changed while it was opened; remove it and start again", tokens.string());
}

TextDataset::TextDataset(std::shared_ptr<const TextTokens> text, Range range, std::uint64_t seed,
                         std::int64_t seq_length, std::unique_ptr<GptIndex> index, std::int64_t samples,
                         SampleRules rules)
    : Dataset(seq_length, index ? static_cast<std::int64_t>(index->shuffle.size()) : samples, rules),
      text_(std::move(text)),
      range_(range),
      seed_(seed),
      index_(std::move(index)) {}

namespace {

std::unique_ptr<GptIndex> sequential_index(const TextDataset::Range& range, const JobSpec& job, std::int64_t samples) {
  if (job.data.sampling != "sequential") return nullptr;
  const std::int64_t tokens = range.last - range.first;
  if (tokens > INT32_MAX)
    throw UsageError(
        "data.text: {} tokens: more than one document can hold; write a data set with `railyard data tokenize`",
        tokens);
  const std::int32_t length = static_cast<std::int32_t>(tokens);
  GptIndexRequest request;
  request.last = 1;
  request.seq_length = job.model.seq_length;
  request.samples = samples;
  request.seed = static_cast<std::uint32_t>(job.train.seed);
  return std::make_unique<GptIndex>(build_gpt_index({&length, 1}, request));
}

}  // namespace

TextDataset::TextDataset(std::shared_ptr<const TextTokens> text, Range range, const JobSpec& job, std::int64_t samples,
                         SampleRules rules)
    : TextDataset(std::move(text), range, job.train.seed, job.model.seq_length, sequential_index(range, job, samples),
                  samples, rules) {}

std::int64_t TextDataset::window(std::int64_t number, std::span<std::int32_t> tokens) const {
  const std::int64_t wanted = static_cast<std::int64_t>(tokens.size());
  const std::int64_t length = range_.last - range_.first;
  if (!index_) {
    const auto n = static_cast<std::uint64_t>(number);
    const PhiloxBlock draw = philox4x32(static_cast<std::uint32_t>(n), static_cast<std::uint32_t>(n >> 32), 0, 0,
                                        stream_key(seed_, std::string("data.window.") + range_.split));
    const std::uint64_t bits = (std::uint64_t{draw.x[1]} << 32) | draw.x[0];
    const auto places = static_cast<std::uint64_t>(length - wanted + 1);
    const auto start = static_cast<std::int64_t>(bits % places);  // bias below 2^-32 for any text
    text_->read(range_.first + start, tokens);
    return wanted;
  }
  // One document, met once an epoch: go on at its start where it ends.
  const auto row = static_cast<std::size_t>(index_->shuffle[static_cast<std::size_t>(number)]);
  std::int64_t offset = index_->samples[2 * row + 1];
  for (std::int64_t done = 0; done < wanted;) {
    const std::int64_t count = std::min(wanted - done, length - offset);
    text_->read(range_.first + offset, tokens.subspan(static_cast<std::size_t>(done), static_cast<std::size_t>(count)));
    done += count;
    offset = 0;
  }
  return wanted;
}

std::string TextDataset::place(std::int64_t) const { return text_->name(); }

Json TextDataset::order() const {
  Json order{{"text", text_->digest()},    {"first", range_.first}, {"last", range_.last},
             {"seq_length", seq_length()}, {"seed", seed_},         {"sampling", index_ ? "sequential" : "random"}};
  if (index_) {
    order["epochs"] = index_->epochs;
    order["separate_last_epoch"] = index_->separate_last_epoch;
  }
  return order;
}

}  // namespace railyard::data
