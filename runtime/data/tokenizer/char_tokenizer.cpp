// Character and byte vocabularies.
#include "runtime/data/tokenizer/char_tokenizer.hpp"

#include "runtime/base/error.hpp"
#include "runtime/data/digest.hpp"
#include "runtime/data/tokenizer/utf8.hpp"

namespace railyard::data {

CharTokenizer::CharTokenizer(std::string_view text, std::string source) {
  Tables tables;
  tables.source = std::move(source);
  tables.ids.assign(0x110000, -1);
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    tables.ids[point.value] = 0;
    at += point.bytes;
  }
  for (std::uint32_t value = 0; value < tables.ids.size(); ++value) {
    if (tables.ids[value] < 0) continue;
    tables.ids[value] = static_cast<std::int32_t>(tables.characters.size());
    tables.characters.push_back(value);
  }
  if (tables.characters.empty())
    throw UsageError("{}: the text is empty: it gives no characters for a vocabulary", tables.source);
  tables.ids.resize(tables.characters.back() + 1);
  tables_ = std::make_shared<const Tables>(std::move(tables));
}

void CharTokenizer::encode(std::string_view text, std::vector<std::int32_t>& ids, SpecialTokens) {
  ids.reserve(ids.size() + text.size());
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    const std::int32_t id = point.value < tables_->ids.size() ? tables_->ids[point.value] : -1;
    if (id < 0) {
      throw UsageError("byte {}: the character U+{:04X} is not among the {} characters of {}", at, point.value,
                       tables_->characters.size(), tables_->source);
    }
    ids.push_back(id);
    at += point.bytes;
  }
}

void CharTokenizer::decode(std::span<const std::int32_t> ids, std::string& text) const {
  for (const std::int32_t id : ids) {
    if (id < 0 || static_cast<std::size_t>(id) >= tables_->characters.size())
      throw UsageError("id {} is not in the vocabulary of {} characters", id, tables_->characters.size());
    append_code_point(tables_->characters[static_cast<std::size_t>(id)], text);
  }
}

std::unique_ptr<Tokenizer> CharTokenizer::clone() const {
  return std::unique_ptr<Tokenizer>(new CharTokenizer(tables_));
}

std::string CharTokenizer::fingerprint() const {
  std::string text = "char-1:";
  for (const std::uint32_t value : tables_->characters) append_code_point(value, text);
  return digest_of(text);
}

void ByteTokenizer::encode(std::string_view text, std::vector<std::int32_t>& ids, SpecialTokens) {
  ids.reserve(ids.size() + text.size());
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
}

void ByteTokenizer::decode(std::span<const std::int32_t> ids, std::string& text) const {
  for (const std::int32_t id : ids) {
    if (id < 0 || id > 256) throw UsageError("id {} is not a byte (0 to 255; 256 ends a document)", id);
    if (id < 256) text += static_cast<char>(id);
  }
}

}  // namespace railyard::data
