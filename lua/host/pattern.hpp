// Lua patterns (Lua 5.4 manual, section 6.4.1) with a step budget. The matcher of Lua's own library can backtrack for
// hours inside one call, where no instruction hook reaches it; this one charges a Meter for each step.
#pragma once

#include <bitset>
#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "lua/host/meter.hpp"

namespace railyard::lua {

// What a pair of parentheses took: a piece of the subject, or, for `()`, the place alone.
struct Capture {
  std::size_t start = 0;
  std::size_t length = 0;
  bool position_only = false;
};

struct PatternMatch {
  std::size_t start = 0, end = 0;  // [start, end) of the subject
  std::vector<Capture> captures;
};

class Pattern {
 public:
  // Compiles `text`; std::invalid_argument says what is malformed, in Lua's words. With `anchors` a leading '^' ties
  // the pattern to where the search starts; without (gmatch) it is an ordinary character.
  Pattern(std::string_view text, bool anchors, Meter& meter);

  [[nodiscard]] bool anchored() const { return anchored_; }

  // The first match that starts at `from` or later (or exactly there: `only_there`, and for an anchored pattern).
  // LimitReached when the meter trips; std::invalid_argument when the pattern asks for more nesting than the matcher
  // has.
  [[nodiscard]] std::optional<PatternMatch> search(std::string_view subject, std::size_t from,
                                                   bool only_there = false) const;

 private:
  friend class Matcher;
  using Set = std::bitset<256>;
  enum class Kind { kSet, kOpen, kClose, kPosition, kBalance, kFrontier, kBackreference, kEnd };
  enum class Repeat { kOnce, kOptional, kGreedy, kGreedyOnce, kLazy };
  struct Item {
    Kind kind = Kind::kSet;
    Repeat repeat = Repeat::kOnce;
    Set set;                            // kSet, kFrontier
    unsigned char open = 0, close = 0;  // kBalance
    int capture = 0;                    // kOpen, kClose, kPosition, kBackreference
  };
  class Parser;

  std::vector<Item> items_;
  int capture_count_ = 0;
  bool anchored_ = false;
  Meter* meter_;
};

}  // namespace railyard::lua
