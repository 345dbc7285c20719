// What a vocabulary does to text before cutting it: Unicode normal forms, replaced and prepended strings.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace railyard::data {

class Normalizer {
 public:
  enum class Kind { kNfc, kNfd, kNfkc, kNfkd, kReplace, kPrepend };
  struct Step {
    Kind kind;
    std::string from = {}, to = {};  // replace: both; prepend: `to`
    bool first_only = false;         // prepend at the start of a document alone
    bool unless_there = false;       // do not prepend where the text starts with it
  };

  void add(Step step) { steps_.push_back(std::move(step)); }
  [[nodiscard]] bool empty() const { return steps_.empty(); }
  [[nodiscard]] const std::vector<Step>& steps() const { return steps_; }
  // The normal text of `text` (valid UTF-8); a view of `text` itself where nothing changes, else of `buffer`. `first`:
  // the text starts the document. Unicode Standard Annex 15, by utf8proc; time linear in the text.
  [[nodiscard]] std::string_view apply(std::string_view text, bool first, std::string& buffer) const;

 private:
  std::vector<Step> steps_;
};

}  // namespace railyard::data
