// Byte-pair vocabularies of every origin (GPT-2, Hugging Face, tiktoken, SentencePiece): added tokens, normaliser,
// pre-tokenizer, merges.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "runtime/data/tokenizer/added_tokens.hpp"
#include "runtime/data/tokenizer/bpe.hpp"
#include "runtime/data/tokenizer/normalizer.hpp"
#include "runtime/data/tokenizer/pre_tokenizer.hpp"
#include "runtime/data/tokenizer/tokenizer.hpp"

namespace railyard::data {

// What a loader fills in; immutable afterwards.
struct BpeRules {
  BpeTables tables;
  AddedTokens added, added_normalized;  // looked for before and after the normaliser
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  std::vector<std::string> decoded;  // bytes that an id stands for
  std::vector<bool> known;           // by id
  bool strip_first_space = false;    // decoding drops one space at the start (the one that encoding put there)
  std::optional<std::int32_t> eod;
  std::string fingerprint;

  // Sets the decoded bytes of an id and makes it known.
  void set_decoded(std::int32_t id, std::string bytes);
};

class BpeTokenizer : public Tokenizer {
 public:
  explicit BpeTokenizer(std::shared_ptr<const BpeRules> rules);

  void encode(std::string_view text, std::vector<std::int32_t>& ids, SpecialTokens special) override;
  void decode(std::span<const std::int32_t> ids, std::string& text) const override;
  [[nodiscard]] std::int64_t vocab_size() const override { return static_cast<std::int64_t>(rules_->decoded.size()); }
  [[nodiscard]] std::optional<std::int32_t> eod() const override { return rules_->eod; }
  [[nodiscard]] std::unique_ptr<Tokenizer> clone() const override { return std::make_unique<BpeTokenizer>(rules_); }
  [[nodiscard]] std::string fingerprint() const override { return rules_->fingerprint; }

 private:
  void encode_normal(std::string_view text, bool first, std::vector<std::int32_t>& ids, bool special);
  // Calls with_text(part) for what lies between the added tokens, and appends these tokens' ids.
  template <class WithText>
  void around(const AddedTokens& added, std::string_view text, bool special, std::vector<std::int32_t>& ids,
              const WithText& with_text);

  std::shared_ptr<const BpeRules> rules_;
  BpeEncoder encoder_;
  Matcher matcher_;
};

// Loaders; `path` is the file (gpt2: the folder). All throw UsageError with the file's name.
std::unique_ptr<Tokenizer> open_gpt2(const std::filesystem::path& folder);
std::unique_ptr<Tokenizer> open_huggingface(const std::filesystem::path& path);
std::unique_ptr<Tokenizer> open_tiktoken(const std::filesystem::path& path);
std::unique_ptr<Tokenizer> open_sentencepiece(const std::filesystem::path& path);

// The text of GPT-2's alphabet, in which each byte is a printable character, as bytes; nothing when a character is not
// of it.
[[nodiscard]] std::optional<std::string> bytes_of_byte_level(std::string_view text);

// A vocabulary without pre-tokenizer merges over whole documents. Where no token has a space mark (U+2581) behind
// another character, text can be cut before such marks without changing the result, and short pieces are fast.
[[nodiscard]] bool cuts_at_space_marks(const BpeTables& tables);
inline constexpr const char* kSpaceMarkPattern = "(?:\xe2\x96\x81)*[^\xe2\x96\x81]+|(?:\xe2\x96\x81)+";

// GPT-2's pattern, which ByteLevel uses too.
inline constexpr const char* kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

}  // namespace railyard::data
