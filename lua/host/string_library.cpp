// string.find, match, gmatch and gsub as the Lua 5.4 manual (section 6.4) defines them, over Pattern.
#include "lua/host/string_library.hpp"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>

#include "lua/host/bind.hpp"
#include "lua/host/pattern.hpp"

namespace railyard::lua {
namespace {

// Turns Lua's `init` (1-based, negative from the end) into an offset; may exceed the size.
std::size_t start_of(lua_State* L, int index, std::size_t size) {
  const lua_Integer init = luaL_optinteger(L, index, 1);
  if (init > 0) return static_cast<std::size_t>(init) - 1;
  if (init == 0 || init < -static_cast<lua_Integer>(size)) return 0;
  return size - static_cast<std::size_t>(-init);
}

void push_capture(lua_State* L, std::string_view subject, const PatternMatch& match, std::size_t index) {
  if (index == 0 && match.captures.empty()) return push(L, subject.substr(match.start, match.end - match.start));
  if (index >= match.captures.size())
    throw std::invalid_argument("invalid capture index %" + std::to_string(index + 1));
  const Capture& capture = match.captures[index];
  if (capture.position_only) {
    lua_pushinteger(L, static_cast<lua_Integer>(capture.start) + 1);
  } else {
    push(L, subject.substr(capture.start, capture.length));
  }
}

// All captures, or the whole match where there are none.
int push_captures(lua_State* L, std::string_view subject, const PatternMatch& match) {
  const std::size_t count = match.captures.empty() ? 1 : match.captures.size();
  luaL_checkstack(L, static_cast<int>(count), "too many captures");
  for (std::size_t i = 0; i < count; ++i) push_capture(L, subject, match, i);
  return static_cast<int>(count);
}

int push_place(lua_State* L, std::size_t start, std::size_t end) {
  lua_pushinteger(L, static_cast<lua_Integer>(start) + 1);
  lua_pushinteger(L, static_cast<lua_Integer>(end));
  return 2;
}

int fail(lua_State* L) {
  luaL_pushfail(L);
  return 1;
}

// Plain search is memmem: linear, where Lua's own is quadratic.
int find_plain(lua_State* L, std::string_view subject, std::string_view text, std::size_t from) {
  meter_of(L).require(static_cast<std::int64_t>((subject.size() - from) / 16));
  if (text.empty()) return push_place(L, from, from);
  const void* found = ::memmem(subject.data() + from, subject.size() - from, text.data(), text.size());
  if (found == nullptr) return fail(L);
  const auto start = static_cast<std::size_t>(static_cast<const char*>(found) - subject.data());
  return push_place(L, start, start + text.size());
}

int find(lua_State* L) {
  const std::string_view subject = check_text(L, 1), text = check_text(L, 2);
  const std::size_t from = start_of(L, 3, subject.size());
  if (from > subject.size()) return fail(L);
  if (lua_toboolean(L, 4) != 0 || text.find_first_of("^$*+?.([%-") == std::string_view::npos)
    return find_plain(L, subject, text, from);
  const auto found = Pattern(text, true, meter_of(L)).search(subject, from);
  if (!found) return fail(L);
  const int places = push_place(L, found->start, found->end);
  return places + (found->captures.empty() ? 0 : push_captures(L, subject, *found));
}

int match(lua_State* L) {
  const std::string_view subject = check_text(L, 1), text = check_text(L, 2);
  const std::size_t from = start_of(L, 3, subject.size());
  if (from > subject.size()) return fail(L);
  const auto found = Pattern(text, true, meter_of(L)).search(subject, from);
  return found ? push_captures(L, subject, *found) : fail(L);
}

// Upvalues: subject, pattern, where to go on, and the end of the last match (so that an empty match there is passed
// over).
int gmatch_next(lua_State* L) {
  const std::string_view subject = check_text(L, lua_upvalueindex(1)), text = check_text(L, lua_upvalueindex(2));
  auto from = static_cast<std::size_t>(lua_tointeger(L, lua_upvalueindex(3)));
  const lua_Integer last_end = lua_tointeger(L, lua_upvalueindex(4));
  const Pattern pattern(text, false, meter_of(L));
  while (from <= subject.size()) {
    const auto found = pattern.search(subject, from);
    if (!found) break;
    if (static_cast<lua_Integer>(found->end) == last_end) {
      from = found->start + 1;
      continue;
    }
    lua_pushinteger(L, static_cast<lua_Integer>(found->end));
    lua_copy(L, -1, lua_upvalueindex(3));
    lua_replace(L, lua_upvalueindex(4));
    return push_captures(L, subject, *found);
  }
  lua_pushinteger(L, static_cast<lua_Integer>(subject.size()) + 1);
  lua_replace(L, lua_upvalueindex(3));
  return 0;
}

int gmatch(lua_State* L) {
  const std::string_view subject = check_text(L, 1);
  check_text(L, 2);
  const std::size_t from = start_of(L, 3, subject.size());
  lua_settop(L, 2);
  lua_pushinteger(L, static_cast<lua_Integer>(std::min(from, subject.size() + 1)));
  lua_pushinteger(L, -1);
  lua_pushcclosure(L, bound<gmatch_next>, 4);
  return 1;
}

// The text that gsub builds, held within the memory limit.
class Building {
 public:
  explicit Building(Meter& meter) : meter_(meter) {}
  void add(std::string_view piece) {
    meter_.require(1 + static_cast<std::int64_t>(piece.size() / 16));
    meter_.require_memory(text_.size() + piece.size());
    text_ += piece;
  }
  [[nodiscard]] std::string_view text() const { return text_; }

 private:
  Meter& meter_;
  std::string text_;
};

// Appends what a replacement text says: %0 to %9 are captures, %% a percent sign.
void add_replacement_text(lua_State* L, Building& result, std::string_view subject, const PatternMatch& match) {
  const std::string_view text = check_text(L, 3);
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      result.add(text.substr(i, 1));
      continue;
    }
    const char next = ++i < text.size() ? text[i] : '\0';
    if (next == '%') {
      result.add("%");
    } else if (next == '0') {
      result.add(subject.substr(match.start, match.end - match.start));
    } else if (std::isdigit(static_cast<unsigned char>(next)) != 0) {
      push_capture(L, subject, match, static_cast<std::size_t>(next - '1'));
      result.add(check_text(L, -1));
      lua_pop(L, 1);
    } else {
      throw std::invalid_argument("invalid use of '%' in replacement string");
    }
  }
}

void add_replacement(lua_State* L, Building& result, std::string_view subject, const PatternMatch& match) {
  const int kind = lua_type(L, 3);
  if (kind == LUA_TSTRING || kind == LUA_TNUMBER) return add_replacement_text(L, result, subject, match);
  if (kind == LUA_TFUNCTION) {
    lua_pushvalue(L, 3);
    lua_call(L, push_captures(L, subject, match), 1);
  } else {
    push_capture(L, subject, match, 0);
    lua_gettable(L, 3);
  }
  if (lua_toboolean(L, -1) == 0) {
    result.add(subject.substr(match.start, match.end - match.start));
  } else if (lua_isstring(L, -1) != 0) {
    result.add(check_text(L, -1));
  } else {
    throw std::invalid_argument(std::string("invalid replacement value (a ") + luaL_typename(L, -1) + ")");
  }
  lua_pop(L, 1);
}

int gsub(lua_State* L) {
  const std::string_view subject = check_text(L, 1), text = check_text(L, 2);
  const int kind = lua_type(L, 3);
  luaL_argexpected(L, kind == LUA_TNUMBER || kind == LUA_TSTRING || kind == LUA_TFUNCTION || kind == LUA_TTABLE, 3,
                   "string/function/table");
  const lua_Integer most = luaL_optinteger(L, 4, std::numeric_limits<lua_Integer>::max());
  Meter& meter = meter_of(L);
  const Pattern pattern(text, true, meter);
  Building result(meter);
  std::size_t from = 0;
  auto last_end = std::string_view::npos;
  lua_Integer count = 0;
  while (count < most && from <= subject.size()) {
    const auto found = pattern.search(subject, from, true);
    if (found && found->end != last_end) {
      ++count;
      add_replacement(L, result, subject, *found);
      from = last_end = found->end;
    } else if (from < subject.size()) {
      result.add(subject.substr(from++, 1));
    } else {
      break;
    }
    if (pattern.anchored()) break;
  }
  if (from < subject.size()) result.add(subject.substr(from));
  push(L, result.text());
  lua_pushinteger(L, count);
  return 2;
}

}  // namespace

void set_pattern_functions(lua_State* L) {
  set_function<find>(L, "find");
  set_function<match>(L, "match");
  set_function<gmatch>(L, "gmatch");
  set_function<gsub>(L, "gsub");
}

}  // namespace railyard::lua
