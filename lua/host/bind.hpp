// How C++ functions are given to Lua: C++ exceptions become Lua errors, and the meter is at hand.
#pragma once

#include <exception>
#include <lua.hpp>
#include <string_view>

#include "lua/host/meter.hpp"

namespace railyard::lua {

// The meter of the state (its allocator's argument).
inline Meter& meter_of(lua_State* L) {
  void* meter = nullptr;
  lua_getallocf(L, &meter);
  return *static_cast<Meter*>(meter);
}

inline void push(lua_State* L, std::string_view text) { lua_pushlstring(L, text.data(), text.size()); }

inline std::string_view check_text(lua_State* L, int index) {
  std::size_t size = 0;
  const char* text = luaL_checklstring(L, index, &size);
  return {text, size};
}

// Wraps `body` as a lua_CFunction: a std::exception becomes a Lua error that begins with the caller's line. Lua's own
// errors are no std::exception and pass through.
template <int (*body)(lua_State*)>
int bound(lua_State* L) {
  try {
    return body(L);
  } catch (const std::exception& error) {
    luaL_where(L, 1);
    lua_pushstring(L, error.what());
    lua_concat(L, 2);
  }
  return lua_error(L);
}

template <int (*body)(lua_State*)>
void set_function(lua_State* L, const char* name) {
  lua_pushcfunction(L, bound<body>);
  lua_setfield(L, -2, name);
}

}  // namespace railyard::lua
