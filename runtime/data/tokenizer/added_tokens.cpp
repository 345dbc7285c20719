// Searching for added tokens.
#include "runtime/data/tokenizer/added_tokens.hpp"

#include <algorithm>

namespace railyard::data {
namespace {

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

}  // namespace

void AddedTokens::add(AddedToken token) {
  if (token.text.empty()) return;
  auto& list = by_first_byte_[static_cast<unsigned char>(token.text.front())];
  const auto index = static_cast<std::uint32_t>(tokens_.size());
  const auto place = std::find_if(list.begin(), list.end(),
                                  [&](std::uint32_t i) { return tokens_[i].text.size() < token.text.size(); });
  list.insert(place, index);
  plain_ = plain_ || !token.special;
  tokens_.push_back(std::move(token));
}

std::optional<AddedTokens::Match> AddedTokens::find(std::string_view text, std::size_t start, bool special) const {
  for (std::size_t at = start; at < text.size(); ++at) {
    for (const std::uint32_t i : by_first_byte_[static_cast<unsigned char>(text[at])]) {
      const AddedToken& token = tokens_[i];
      if ((token.special && !special) || text.compare(at, token.text.size(), token.text) != 0) continue;
      Match match{at, at + token.text.size(), &token};
      if (token.single_word && ((match.first > 0 && is_word(text[match.first - 1])) ||
                                (match.last < text.size() && is_word(text[match.last]))))
        continue;
      if (token.strip_left)
        while (match.first > start && is_space(text[match.first - 1])) --match.first;
      if (token.strip_right)
        while (match.last < text.size() && is_space(text[match.last])) ++match.last;
      return match;
    }
  }
  return std::nullopt;
}

}  // namespace railyard::data
