// What a job or site file may call: the parts of Lua's standard library that cannot reach the system, cannot run long
// unmetered, and give the same answer each time.
#pragma once

struct lua_State;

namespace railyard::lua {

// Opens them in a fresh state whose allocator is Meter::allocate. May raise Lua errors: call it protected.
void open_libraries(lua_State* L);

// Makes reading an unknown key of the table on top of the stack an error with the nearest name; `what` names the table.
void make_strict(lua_State* L, const char* what);

// Makes reading an undefined global variable an error with the nearest name, local variables included.
void make_globals_strict(lua_State* L);

// The first line of the innermost running function whose chunk is the user's own (see host.cpp), as "[chunk N]:LINE: ".
// Pushes an empty string where there is none.
void push_user_line(lua_State* L);

}  // namespace railyard::lua
