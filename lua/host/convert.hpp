// Lua values to JSON and back.
#pragma once

#include <stdexcept>
#include <string>

#include "runtime/base/json.hpp"

struct lua_State;

namespace railyard::lua {

// A value that cannot be a setting: `path` leads to it ("train.lr.peak", "data.train[1]"), what() says why.
class ValueError : public std::runtime_error {
 public:
  ValueError(std::string path, const std::string& why) : std::runtime_error(why), path_(std::move(path)) {}
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// "a.b" from "a" and "b"; "a[1]" for list items.
std::string join_path(const std::string& path, std::string_view key);
std::string join_path(const std::string& path, std::size_t index);

// Reads the value at `index`: tables with keys 1..n become arrays, with names become objects, empty ones empty objects.
// A function becomes an empty binary value (JSON has no such thing), so that a schema can name it. ValueError for
// cycles, metatables, mixed or holey tables, names that are no plain UTF-8, too many or too large values. Raises no Lua
// error and needs no protected call.
Json to_json(lua_State* L, int index, const std::string& path);

// Pushes `value`; a null member of an object is left out, a null item of an array becomes false. May raise Lua errors
// (memory): call it protected.
void push_json(lua_State* L, const Json& value);

}  // namespace railyard::lua
