// The tokens of a Lua text (Lua 5.4 manual, section 3.1), for finding keys in it and for reading literals. It never
// fails: what is no Lua becomes symbols, so that it can be used on text that Lua itself refused.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace railyard::lua {

struct Token {
  enum class Kind { kName, kNumber, kString, kSymbol };
  Kind kind = Kind::kSymbol;
  std::string text;  // a string's value; otherwise as written ("==" and the like are one symbol)
  int line = 1;

  [[nodiscard]] bool is_symbol(std::string_view symbol) const { return kind == Kind::kSymbol && text == symbol; }
  [[nodiscard]] bool is_name(std::string_view name) const { return kind == Kind::kName && text == name; }
};

// "]]" for level 0, "]=]" for level 1: what closes a long bracket.
std::string long_close(std::size_t level);

// Comments and white space are left out. `closed` (when given) tells whether the last string was closed.
std::vector<Token> tokens_of(std::string_view text, bool* closed = nullptr);

}  // namespace railyard::lua
