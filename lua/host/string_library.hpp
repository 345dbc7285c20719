// The functions of Lua's string library that search: find, match, gmatch and gsub, with metered patterns.
#pragma once

struct lua_State;

namespace railyard::lua {

// Replaces them in the table on top of the stack.
void set_pattern_functions(lua_State* L);

}  // namespace railyard::lua
