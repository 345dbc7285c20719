// Characters as tokens (nanoGPT's character level): the sorted distinct code points of a text. And bytes as tokens.
#pragma once

#include <memory>
#include <vector>

#include "runtime/data/tokenizer/tokenizer.hpp"

namespace railyard::data {

// An invalid byte counts as a character of its own, so any bytes can be encoded and come back.
class CharTokenizer : public Tokenizer {
 public:
  // `text` whose distinct characters, sorted by code point, are ids 0, 1, 2 ...; `source` names it in messages.
  CharTokenizer(std::string_view text, std::string source);

  void encode(std::string_view text, std::vector<std::int32_t>& ids, SpecialTokens special) override;
  void decode(std::span<const std::int32_t> ids, std::string& text) const override;
  [[nodiscard]] std::int64_t vocab_size() const override {
    return static_cast<std::int64_t>(tables_->characters.size());
  }
  [[nodiscard]] std::optional<std::int32_t> eod() const override { return std::nullopt; }
  [[nodiscard]] std::unique_ptr<Tokenizer> clone() const override;
  [[nodiscard]] std::string fingerprint() const override;

 private:
  struct Tables {
    std::vector<std::uint32_t> characters;  // by id
    std::vector<std::int32_t> ids;          // by code point, -1 where there is none
    std::string source;
  };
  explicit CharTokenizer(std::shared_ptr<const Tables> tables) : tables_(std::move(tables)) {}
  std::shared_ptr<const Tables> tables_;
};

// The byte b is id b; 256 ends a document.
class ByteTokenizer : public Tokenizer {
 public:
  void encode(std::string_view text, std::vector<std::int32_t>& ids, SpecialTokens special) override;
  void decode(std::span<const std::int32_t> ids, std::string& text) const override;
  [[nodiscard]] std::int64_t vocab_size() const override { return 257; }
  [[nodiscard]] std::optional<std::int32_t> eod() const override { return 256; }
  [[nodiscard]] std::unique_ptr<Tokenizer> clone() const override { return std::make_unique<ByteTokenizer>(); }
  [[nodiscard]] std::string fingerprint() const override { return "bytes-1"; }
};

}  // namespace railyard::data
