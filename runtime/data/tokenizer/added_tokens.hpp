// Tokens that are found in the text as they stand, before it is normalised and cut.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace railyard::data {

struct AddedToken {
  std::string text;
  std::int32_t id = 0;
  bool special = false;
  bool normalized = false;                       // looked for in the normalised text
  bool strip_left = false, strip_right = false;  // takes the white space beside it along
  bool single_word = false;                      // not inside a word
};

class AddedTokens {
 public:
  void add(AddedToken token);
  // Whether any token could be found at all.
  [[nodiscard]] bool any(bool special) const { return special ? !tokens_.empty() : plain_; }

  struct Match {
    std::size_t first = 0, last = 0;
    const AddedToken* token = nullptr;
  };
  // The first match at or after `start`, the longest of those that start there; special tokens only with `special`.
  [[nodiscard]] std::optional<Match> find(std::string_view text, std::size_t start, bool special) const;

 private:
  std::vector<AddedToken> tokens_;
  bool plain_ = false;                                         // some token is not special
  std::array<std::vector<std::uint32_t>, 256> by_first_byte_;  // longest first
};

}  // namespace railyard::data
