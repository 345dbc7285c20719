// The split behaviours other than "Isolated".
#include "runtime/data/tokenizer/pre_tokenizer.hpp"

namespace railyard::data {

std::size_t PreTokenizer::next_character(std::string_view text, std::size_t at) {
  ++at;
  while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U) ++at;
  return at;
}

std::vector<std::string_view> PreTokenizer::pieces_of(const SplitStage& rule, Matcher& matcher, std::string_view text) {
  // Parts in order, each a match or what lies between two.
  struct Part {
    std::string_view text;
    bool match;
  };
  std::vector<Part> parts;
  std::size_t at = 0, search = 0, first = 0, last = 0;
  while (search <= text.size() && matcher.find(*rule.regex, text, search, first, last)) {
    if (first == last) {
      search = next_character(text, last);
      continue;
    }
    if (first > at) parts.push_back({text.substr(at, first - at), rule.invert});
    parts.push_back({text.substr(first, last - first), !rule.invert});
    at = search = last;
  }
  if (at < text.size()) parts.push_back({text.substr(at), rule.invert});

  std::vector<std::string_view> pieces;
  const auto extend = [](std::string_view a, std::string_view b) {
    return std::string_view(a.data(), a.size() + b.size());
  };
  bool previous_match = false, open = false;
  for (const Part& part : parts) {
    bool join = false;
    switch (rule.behavior) {
      case SplitBehavior::kIsolated:
        break;
      case SplitBehavior::kRemoved:
        break;
      case SplitBehavior::kMergedWithPrevious:
        join = open && part.match && !previous_match;
        break;
      case SplitBehavior::kMergedWithNext:
        join = open && previous_match && !part.match;
        break;
      case SplitBehavior::kContiguous:
        join = open && part.match == previous_match;
        break;
    }
    if (rule.behavior == SplitBehavior::kRemoved && part.match) {
      open = false;
    } else if (join) {
      pieces.back() = extend(pieces.back(), part.text);
    } else {
      pieces.push_back(part.text);
      open = true;
    }
    previous_match = part.match;
  }
  return pieces;
}

}  // namespace railyard::data
