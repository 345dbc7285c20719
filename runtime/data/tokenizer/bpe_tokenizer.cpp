// Runs a document through added tokens, normaliser, pre-tokenizer and merges.
#include "runtime/data/tokenizer/bpe_tokenizer.hpp"

#include <algorithm>

#include "runtime/base/error.hpp"
#include "runtime/data/tokenizer/utf8.hpp"

namespace railyard::data {
namespace {

// The end of the run of valid or of invalid characters that starts at `at`.
std::size_t valid_until(std::string_view text, std::size_t at) {
  while (at < text.size()) {
    // Eight ASCII bytes at a time.
    std::uint64_t word = 0;
    if (at + 8 <= text.size()) {
      std::memcpy(&word, text.data() + at, 8);
      if ((word & 0x8080808080808080ULL) == 0) {
        at += 8;
        continue;
      }
    }
    const CodePoint point = code_point_at(text, at);
    if (!point.valid()) break;
    at += point.bytes;
  }
  return at;
}

std::size_t invalid_until(std::string_view text, std::size_t at) {
  while (at < text.size() && !code_point_at(text, at).valid()) ++at;
  return at;
}

}  // namespace

void BpeRules::set_decoded(std::int32_t id, std::string bytes) {
  const auto index = static_cast<std::size_t>(id);
  if (index >= decoded.size()) {
    decoded.resize(index + 1);
    known.resize(index + 1, false);
  }
  decoded[index] = std::move(bytes);
  known[index] = true;
}

BpeTokenizer::BpeTokenizer(std::shared_ptr<const BpeRules> rules)
    : rules_(std::move(rules)), encoder_(std::shared_ptr<const BpeTables>(rules_, &rules_->tables)) {}

template <class WithText>
void BpeTokenizer::around(const AddedTokens& added, std::string_view text, bool special, std::vector<std::int32_t>& ids,
                          const WithText& with_text) {
  std::size_t at = 0;
  if (added.any(special)) {
    while (const auto match = added.find(text, at, special)) {
      if (match->first > at) with_text(text.substr(at, match->first - at), at == 0);
      ids.push_back(match->token->id);
      at = match->last;
    }
  }
  if (at < text.size()) with_text(text.substr(at), at == 0);
}

void BpeTokenizer::encode(std::string_view text, std::vector<std::int32_t>& ids, SpecialTokens special) {
  const bool with_special = special == SpecialTokens::kRecognised;
  ids.reserve(ids.size() + text.size() / 4);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t valid_end = valid_until(text, at);
    const std::size_t start = at;
    if (valid_end > at)
      around(rules_->added, text.substr(at, valid_end - at), with_special, ids,
             [&](std::string_view part, bool first) { encode_normal(part, first && start == 0, ids, with_special); });
    at = invalid_until(text, valid_end);
    if (at > valid_end) encoder_.encode(text.substr(valid_end, at - valid_end), ids);  // byte by byte, merges included
  }
}

void BpeTokenizer::encode_normal(std::string_view text, bool first, std::vector<std::int32_t>& ids, bool special) {
  std::string buffer;
  text = rules_->normalizer.apply(text, first, buffer);
  around(rules_->added_normalized, text, special, ids, [&](std::string_view part, bool) {
    rules_->pre_tokenizer.cut(matcher_, part, [&](std::string_view piece) { encoder_.encode(piece, ids); });
  });
}

void BpeTokenizer::decode(std::span<const std::int32_t> ids, std::string& text) const {
  const std::size_t start = text.size();
  for (const std::int32_t id : ids) {
    if (id < 0 || static_cast<std::size_t>(id) >= rules_->decoded.size() ||
        !rules_->known[static_cast<std::size_t>(id)])
      throw UsageError("id {} is not in the vocabulary of {}", id, rules_->decoded.size());
    text += rules_->decoded[static_cast<std::size_t>(id)];
  }
  if (rules_->strip_first_space && text.size() > start && text[start] == ' ') text.erase(start, 1);
}

bool cuts_at_space_marks(const BpeTables& tables) {
  constexpr std::string_view kMark = "\xe2\x96\x81";
  for (const std::string& token : tables.tokens)
    for (std::size_t at = token.find(kMark, 1); at != std::string::npos; at = token.find(kMark, at + 1))
      if (at < 3 || token.compare(at - 3, 3, kMark) != 0) return false;
  return true;
}

std::optional<std::string> bytes_of_byte_level(std::string_view text) {
  // Printable Latin-1 stands for itself; the other bytes, in order, are U+0100 and on.
  static const std::vector<int> bytes = [] {
    std::vector<int> table(0x180, -1);
    int other = 0x100;
    for (int b = 0; b < 256; ++b) {
      const bool printable = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
      table[static_cast<std::size_t>(printable ? b : other++)] = b;
    }
    return table;
  }();
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = code_point_at(text, at);
    if (point.value >= bytes.size() || bytes[point.value] < 0) return std::nullopt;
    out += static_cast<char>(bytes[point.value]);
    at += point.bytes;
  }
  return out;
}

}  // namespace railyard::data
