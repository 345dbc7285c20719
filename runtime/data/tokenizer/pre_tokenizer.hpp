// Cutting text into the pieces that byte-pair encoding works on, as Hugging Face's pre-tokenizers do.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/data/tokenizer/regex.hpp"

namespace railyard::data {

// What becomes of the matches of a pattern.
enum class SplitBehavior { kIsolated, kRemoved, kMergedWithPrevious, kMergedWithNext, kContiguous };

struct SplitStage {
  std::unique_ptr<const Regex> regex;
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;        // what lies between matches counts as the match
  bool prefix_space = false;  // put a space before a text that does not start with one; `regex` may then be null
};

// Stages applied in turn, each to the pieces of the one before; immutable.
class PreTokenizer {
 public:
  void add(SplitStage stage) { stages_.push_back(std::move(stage)); }

  // Calls take(piece) for the pieces of `text` (valid UTF-8) in order. Linear for the patterns in use.
  template <class Take>
  void cut(Matcher& matcher, std::string_view text, const Take& take) const {
    cut_from(0, matcher, text, take);
  }

 private:
  template <class Take>
  void cut_from(std::size_t stage, Matcher& matcher, std::string_view text, const Take& take) const {
    if (text.empty()) return;
    if (stage == stages_.size()) {
      take(text);
      return;
    }
    const SplitStage& rule = stages_[stage];
    std::string with_space;
    if (rule.prefix_space && text.front() != ' ') {
      with_space.append(" ").append(text);
      text = with_space;
    }
    if (!rule.regex) return cut_from(stage + 1, matcher, text, take);
    if (rule.behavior != SplitBehavior::kIsolated) {
      for (const std::string_view piece : pieces_of(rule, matcher, text)) cut_from(stage + 1, matcher, piece, take);
      return;
    }
    const bool last_stage = stage + 1 == stages_.size();
    std::size_t at = 0, search = 0, first = 0, last = 0;
    while (search <= text.size() && matcher.find(*rule.regex, text, search, first, last)) {
      if (first == last) {  // an empty match cuts nothing
        search = next_character(text, last);
        continue;
      }
      if (last_stage) {
        if (first > at) take(text.substr(at, first - at));
        take(text.substr(first, last - first));
      } else {
        cut_from(stage + 1, matcher, text.substr(at, first - at), take);
        cut_from(stage + 1, matcher, text.substr(first, last - first), take);
      }
      at = search = last;
      if (at == text.size()) return;
    }
    cut_from(stage + 1, matcher, text.substr(at), take);
  }
  static std::size_t next_character(std::string_view text, std::size_t at);
  static std::vector<std::string_view> pieces_of(const SplitStage& rule, Matcher& matcher, std::string_view text);

  std::vector<SplitStage> stages_;
};

}  // namespace railyard::data
