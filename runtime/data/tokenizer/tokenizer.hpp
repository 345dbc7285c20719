// Text to token ids and back: one interface for every vocabulary format.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/job.hpp"

namespace railyard::data {

// Whether the literal text of a special token ("<|endoftext|>") in a document becomes that token or stays plain text.
// Documents are data: only text that the caller wrote itself, such as a prompt, should be read with kRecognised.
enum class SpecialTokens { kPlainText, kRecognised };

// A vocabulary with the state of one encoding thread (a cache of words). encode() is not safe to call from two threads
// at once: give each thread its clone(). Everything else is const and safe.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Appends the ids of `text` (any bytes) to `ids`; adds no begin or end token. Without a normaliser decode() gives the
  // same bytes back. UsageError when the vocabulary has no token for a part of the text.
  virtual void encode(std::string_view text, std::vector<std::int32_t>& ids,
                      SpecialTokens special = SpecialTokens::kPlainText) = 0;
  // Appends the bytes of `ids`. UsageError for an id that the vocabulary does not have.
  virtual void decode(std::span<const std::int32_t> ids, std::string& text) const = 0;

  // One more than the largest id.
  [[nodiscard]] virtual std::int64_t vocab_size() const = 0;
  // The token that ends a document; nothing when the vocabulary has none.
  [[nodiscard]] virtual std::optional<std::int32_t> eod() const = 0;
  // Another one over the same tables, cheap.
  [[nodiscard]] virtual std::unique_ptr<Tokenizer> clone() const = 0;
  // Identifies the vocabulary and its rules by content, hexadecimal: equal fingerprints encode equally.
  [[nodiscard]] virtual std::string fingerprint() const = 0;
};

// Opens "TYPE" with its file: char (a text whose distinct characters are the vocabulary), bytes (no path), gpt2 (a
// folder with vocab.json and merges.txt), huggingface (tokenizer.json), sentencepiece (tokenizer.model), tiktoken (a
// file of ranks, or tekken.json). A folder stands for the usual file name in it. UsageError for anything that cannot be
// used.
std::unique_ptr<Tokenizer> open_tokenizer(const TokenizerSpec& spec);

// "TYPE:PATH" or "TYPE" of the command line.
TokenizerSpec parse_tokenizer_spec(const std::string& text);

}  // namespace railyard::data
