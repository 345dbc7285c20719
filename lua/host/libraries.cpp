// Opens the allowed parts of Lua's library and wraps those that could run long inside one call.
#include "lua/host/libraries.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "lua/host/bind.hpp"
#include "lua/host/string_library.hpp"
#include "lua/schema/suggestion.hpp"

namespace railyard::lua {
namespace {

// Calls that run long without executing an instruction: `cost` says how long, from the arguments, before the original
// function (the upvalue, which has none of its own) runs in the same frame, so that its errors name the right line.
template <lua_Integer (*cost)(lua_State*)>
int metered_body(lua_State* L) {
  meter_of(L).require(std::max<lua_Integer>(cost(L), 0));
  return lua_tocfunction(L, lua_upvalueindex(1))(L);
}

template <lua_Integer (*cost)(lua_State*)>
void meter_function(lua_State* L, const char* name) {
  lua_getfield(L, -1, name);
  lua_pushcclosure(L, bound<metered_body<cost>>, 1);
  lua_setfield(L, -2, name);
}

lua_Integer text_size(lua_State* L) {
  return lua_type(L, 1) == LUA_TSTRING ? static_cast<lua_Integer>(lua_rawlen(L, 1)) / 16 : 0;
}

// string.rep(s, n, sep) loops n times, even over an empty text.
lua_Integer repetitions(lua_State* L) {
  const lua_Integer count = std::max<lua_Integer>(lua_tointeger(L, 2), 0);
  const std::size_t piece = check_text(L, 1).size() + (lua_isnoneornil(L, 3) ? 0 : check_text(L, 3).size());
  std::size_t total = 0;
  if (__builtin_mul_overflow(piece, static_cast<std::size_t>(count), &total))
    total = std::numeric_limits<std::size_t>::max();
  meter_of(L).require_memory(total);
  return count;
}

// The length of a list argument. A __len of one's own could claim any length, and these functions loop over it.
lua_Integer list_size(lua_State* L) {
  if (lua_type(L, 1) != LUA_TTABLE) return 0;
  if (luaL_getmetafield(L, 1, "__len") != LUA_TNIL)
    throw std::invalid_argument("a table with __len is not a plain list");
  return static_cast<lua_Integer>(lua_rawlen(L, 1));
}

lua_Integer span(lua_Integer first, lua_Integer last) {
  lua_Integer difference = 0;
  if (last < first) return 0;
  return __builtin_sub_overflow(last, first, &difference) ? LUA_MAXINTEGER : difference;
}

lua_Integer sorting(lua_State* L) {
  const lua_Integer size = list_size(L);
  return static_cast<lua_Integer>(2.0 * static_cast<double>(size) * std::log2(static_cast<double>(size) + 2.0));
}

lua_Integer joining(lua_State* L) {
  const lua_Integer size = list_size(L);
  const lua_Integer first = lua_isnoneornil(L, 3) ? 1 : lua_tointeger(L, 3);
  return span(first, lua_isnoneornil(L, 4) ? size : lua_tointeger(L, 4));
}

lua_Integer moving(lua_State* L) { return span(lua_tointeger(L, 2), lua_tointeger(L, 3)); }

// pcall and xpcall that hand on what ends the whole evaluation: a tripped meter, or no memory.
int finish_protected(lua_State* L, int status, int base) {
  if (status != LUA_OK) {
    if (status == LUA_ERRMEM) meter_of(L).trip_memory();
    if (meter_of(L).tripped()) return lua_error(L);
    lua_pushboolean(L, 0);
    lua_insert(L, -2);
    return 2;
  }
  lua_pushboolean(L, 1);
  lua_insert(L, base);
  return lua_gettop(L) - base + 1;
}

int protected_call(lua_State* L) {
  luaL_checkany(L, 1);
  return finish_protected(L, lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0), 1);
}

// Message handler of xpcall; the upvalue is the user's. An error raised by the hook calls its handler with hooks turned
// off, so that a user's handler could then run for ever: it is passed over.
int call_handler(lua_State* L) {
  if (meter_of(L).tripped()) return 1;
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, 1, 1);
  return 1;
}

int protected_call_with_handler(lua_State* L) {
  luaL_checktype(L, 2, LUA_TFUNCTION);
  lua_pushvalue(L, 1);
  lua_pushvalue(L, 2);
  lua_pushcclosure(L, call_handler, 1);
  lua_replace(L, 1);  // handler, handler, arguments..., function
  lua_replace(L, 2);  // handler, function, arguments...
  return finish_protected(L, lua_pcall(L, lua_gettop(L) - 2, LUA_MULTRET, 1), 2);
}

// A finalizer would run where no instruction hook reaches it.
int set_metatable(lua_State* L) {
  const int kind = lua_type(L, 2);
  luaL_checktype(L, 1, LUA_TTABLE);
  luaL_argexpected(L, kind == LUA_TNIL || kind == LUA_TTABLE, 2, "nil or table");
  if (luaL_getmetafield(L, 1, "__metatable") != LUA_TNIL) return luaL_error(L, "cannot change a protected metatable");
  if (kind == LUA_TTABLE) {
    lua_pushliteral(L, "__gc");
    if (lua_rawget(L, 2) != LUA_TNIL) return luaL_error(L, "setmetatable: __gc is not available here");
  }
  lua_settop(L, 2);
  lua_setmetatable(L, 1);
  return 1;
}

// load(text [, name [, mode [, env]]]): text only, no reader functions, no bytecode.
int load_text(lua_State* L) {
  if (lua_type(L, 1) != LUA_TSTRING) return luaL_error(L, "load: takes a string here, not a %s", luaL_typename(L, 1));
  const std::string_view text = check_text(L, 1);
  const bool environment = !lua_isnone(L, 4);
  const int status = luaL_loadbufferx(L, text.data(), text.size(), "=(load)", "t");
  if (status == LUA_ERRMEM) {
    meter_of(L).trip_memory();
    return lua_error(L);
  }
  if (status != LUA_OK) {
    luaL_pushfail(L);
    lua_insert(L, -2);
    return 2;
  }
  if (environment) {
    lua_pushvalue(L, 4);
    if (lua_setupvalue(L, -2, 1) == nullptr) lua_pop(L, 1);
  }
  return 1;
}

// Upvalues: the name, and why it is not there.
int refuse(lua_State* L) {
  return luaL_error(L, "%s is not available here: %s", lua_tostring(L, lua_upvalueindex(1)),
                    lua_tostring(L, lua_upvalueindex(2)));
}

void set_refusal(lua_State* L, const char* field, const std::string& name, const char* why) {
  push(L, name);
  lua_pushstring(L, why);
  lua_pushcclosure(L, refuse, 2);
  lua_setfield(L, -2, field);
}

// __index of a library that is missing as a whole. Upvalues: its name, and why.
int refuse_field(lua_State* L) {
  return luaL_error(L, "%s.%s is not available here: %s", lua_tostring(L, lua_upvalueindex(1)),
                    luaL_tolstring(L, 2, nullptr), lua_tostring(L, lua_upvalueindex(2)));
}

void set_refused_library(lua_State* L, const char* name, const char* why) {
  lua_newtable(L);
  lua_newtable(L);
  lua_pushstring(L, name);
  lua_pushstring(L, why);
  lua_pushcclosure(L, refuse_field, 2);
  lua_setfield(L, -2, "__index");
  lua_setmetatable(L, -2);
  lua_setfield(L, -2, name);
}

void remove_fields(lua_State* L, const std::vector<const char*>& names) {
  for (const char* name : names) {
    lua_pushnil(L);
    lua_setfield(L, -2, name);
  }
}

constexpr const char* kNoSystem =
    "the file is evaluated without access to the system (env.NAME reads an environment variable)";
constexpr const char* kSameEachTime = "the file must give the same answer each time";
constexpr const char* kTextOnly = "use require, which reads railyard's modules and files beside this one";

void open_base(lua_State* L) {
  luaL_requiref(L, LUA_GNAME, luaopen_base, 0);
  remove_fields(L, {"collectgarbage", "warn", "print"});
  set_function<protected_call>(L, "pcall");
  set_function<protected_call_with_handler>(L, "xpcall");
  set_function<set_metatable>(L, "setmetatable");
  set_function<load_text>(L, "load");
  set_refusal(L, "dofile", "dofile", kTextOnly);
  set_refusal(L, "loadfile", "loadfile", kTextOnly);
  set_refusal(L, "loadstring", "loadstring", "load takes a text in Lua 5.4");
  set_refused_library(L, "os", kNoSystem);
  set_refused_library(L, "io", kNoSystem);
  set_refused_library(L, "debug", kNoSystem);
  set_refused_library(L, "package", kTextOnly);
  set_refused_library(L, "coroutine", "a settings file has no use for it");
}

void open_string(lua_State* L) {
  luaL_requiref(L, LUA_STRLIBNAME, luaopen_string, 0);
  remove_fields(L, {"pack", "unpack", "packsize"});
  set_refusal(L, "dump", "string.dump", "bytecode is not accepted");
  set_pattern_functions(L);
  meter_function<repetitions>(L, "rep");
  for (const char* name : {"lower", "upper", "reverse"}) meter_function<text_size>(L, name);
  lua_setfield(L, -2, LUA_STRLIBNAME);
  lua_pushliteral(L, "");
  lua_getmetatable(L, -1);
  lua_pushliteral(L, "the metatable of strings");
  lua_setfield(L, -2, "__metatable");
  lua_pop(L, 2);
}

void open_table(lua_State* L) {
  luaL_requiref(L, LUA_TABLIBNAME, luaopen_table, 0);
  for (const char* name : {"insert", "remove", "unpack"}) meter_function<list_size>(L, name);
  meter_function<sorting>(L, "sort");
  meter_function<joining>(L, "concat");
  meter_function<moving>(L, "move");
  lua_setfield(L, -2, LUA_TABLIBNAME);
}

void open_math(lua_State* L) {
  luaL_requiref(L, LUA_MATHLIBNAME, luaopen_math, 0);
  set_refusal(L, "random", "math.random", kSameEachTime);
  set_refusal(L, "randomseed", "math.randomseed", kSameEachTime);
  lua_setfield(L, -2, LUA_MATHLIBNAME);
}

void open_utf8(lua_State* L) {
  luaL_requiref(L, LUA_UTF8LIBNAME, luaopen_utf8, 0);
  for (const char* name : {"len", "offset"}) meter_function<text_size>(L, name);
  lua_setfield(L, -2, LUA_UTF8LIBNAME);
}

void add_names_of_table(lua_State* L, int table, std::vector<std::string>& names) {
  lua_pushnil(L);
  while (lua_next(L, table) != 0) {
    lua_pop(L, 1);
    if (lua_type(L, -1) == LUA_TSTRING) names.emplace_back(lua_tostring(L, -1));
  }
}

// Local variables that the calling Lua function sees, its upvalues included.
void add_local_names(lua_State* L, std::vector<std::string>& names) {
  lua_Debug frame;
  if (lua_getstack(L, 1, &frame) == 0) return;
  for (int i = 1; const char* name = lua_getlocal(L, &frame, i); ++i) {
    lua_pop(L, 1);
    if (name[0] != '(') names.emplace_back(name);
  }
  lua_getinfo(L, "f", &frame);
  for (int i = 1; const char* name = lua_getupvalue(L, -1, i); ++i) {
    lua_pop(L, 1);
    names.emplace_back(name);
  }
  lua_pop(L, 1);
}

[[noreturn]] void refuse_name(std::string message, std::string_view name, const std::vector<std::string>& known) {
  if (const auto near = nearest_name(name, known)) message += "; did you mean " + *near + "?";
  throw std::invalid_argument(message);
}

// __index of a strict table. Upvalues: the table, and what it is.
int unknown_field(lua_State* L) {
  const std::string what = lua_tostring(L, lua_upvalueindex(2));
  if (lua_type(L, 2) != LUA_TSTRING)
    throw std::invalid_argument(what + " has names only, not a " + luaL_typename(L, 2));
  std::vector<std::string> known;
  add_names_of_table(L, lua_upvalueindex(1), known);
  const std::string_view name = check_text(L, 2);
  refuse_name(what + " has no " + printable(name), name, known);
}

// __index of the globals. A misspelt variable would otherwise be nil, and a key set to nil keeps its default silently.
int undefined_variable(lua_State* L) {
  if (lua_type(L, 2) != LUA_TSTRING) return 0;
  std::vector<std::string> known;
  add_local_names(L, known);
  lua_pushglobaltable(L);
  add_names_of_table(L, lua_gettop(L), known);
  const std::string_view name = check_text(L, 2);
  refuse_name("nothing is called " + printable(name) + " here", name, known);
}

}  // namespace

void make_strict(lua_State* L, const char* what) {
  lua_newtable(L);
  lua_pushvalue(L, -2);
  lua_pushstring(L, what);
  lua_pushcclosure(L, bound<unknown_field>, 2);
  lua_setfield(L, -2, "__index");
  lua_pushstring(L, what);
  lua_setfield(L, -2, "__metatable");
  lua_setmetatable(L, -2);
}

void make_globals_strict(lua_State* L) {
  lua_pushglobaltable(L);
  lua_newtable(L);
  set_function<undefined_variable>(L, "__index");
  lua_pushliteral(L, "the metatable of globals");
  lua_setfield(L, -2, "__metatable");
  lua_setmetatable(L, -2);
  lua_pop(L, 1);
}

void open_libraries(lua_State* L) {
  open_base(L);
  open_string(L);
  open_table(L);
  open_math(L);
  open_utf8(L);
  lua_pop(L, 1);
}

void push_user_line(lua_State* L) {
  lua_Debug frame;
  for (int level = 0; lua_getstack(L, level, &frame) != 0; ++level) {
    lua_getinfo(L, "Sl", &frame);
    if (frame.currentline > 0 && std::strncmp(frame.source, "=[chunk", 7) == 0) {
      lua_pushfstring(L, "%s:%d: ", frame.short_src, frame.currentline);
      return;
    }
  }
  lua_pushliteral(L, "");
}

}  // namespace railyard::lua
