// Walks Lua tables into JSON and JSON into Lua tables.
#include "lua/host/convert.hpp"

#include <fmt/format.h>

#include <lua.hpp>
#include <map>
#include <string_view>
#include <vector>

#include "lua/schema/suggestion.hpp"

namespace railyard::lua {
namespace {

constexpr int kMaximumDepth = 64;
constexpr std::size_t kMaximumValues = 200'000;
constexpr std::size_t kMaximumMembers = 10'000;  // of one table of names
constexpr std::size_t kMaximumText = std::size_t{32} << 20;

class Reader {
 public:
  explicit Reader(lua_State* L) : L_(L) {}

  Json read(int index, const std::string& path) {
    if (++values_ > kMaximumValues) throw ValueError(path, fmt::format("holds more than {} values", kMaximumValues));
    switch (lua_type(L_, index)) {
      case LUA_TNIL:
        return nullptr;
      case LUA_TBOOLEAN:
        return lua_toboolean(L_, index) != 0;
      case LUA_TNUMBER:
        if (lua_isinteger(L_, index) != 0) return static_cast<std::int64_t>(lua_tointeger(L_, index));
        return static_cast<double>(lua_tonumber(L_, index));
      case LUA_TSTRING:
        return text(index, path);
      case LUA_TTABLE:
        return table(lua_absindex(L_, index), path);
      case LUA_TFUNCTION:
        return Json::binary({});
      default:
        throw ValueError(path,
                         fmt::format("is a {}, which cannot be a setting", lua_typename(L_, lua_type(L_, index))));
    }
  }

 private:
  std::string text(int index, const std::string& path) {
    std::size_t size = 0;
    const char* data = lua_tolstring(L_, index, &size);
    text_ += size;
    if (text_ > kMaximumText) throw ValueError(path, fmt::format("holds more than {} MiB of text", kMaximumText >> 20));
    return {data, size};
  }

  Json table(int index, const std::string& path) {
    const void* identity = lua_topointer(L_, index);
    for (const void* outer : open_)
      if (outer == identity) throw ValueError(path, "is a table that contains itself");
    if (open_.size() >= kMaximumDepth || lua_checkstack(L_, 8) == 0)
      throw ValueError(path, fmt::format("is nested deeper than {} tables", kMaximumDepth));
    if (lua_getmetatable(L_, index) != 0) {
      lua_pop(L_, 1);
      throw ValueError(path, "is a table with a metatable, whose values may be hidden; give a plain table");
    }
    open_.push_back(identity);
    Json result = lua_rawlen(L_, index) > 0 ? list(index, path) : object(index, path);
    open_.pop_back();
    return result;
  }

  Json list(int index, const std::string& path) {
    std::map<lua_Integer, Json> items;
    lua_pushnil(L_);
    while (lua_next(L_, index) != 0) {
      if (lua_isinteger(L_, -2) == 0) throw ValueError(path, "mixes list items and named keys");
      const lua_Integer at = lua_tointeger(L_, -2);
      if (at < 1) throw ValueError(path, fmt::format("has an item at {}; lists start at 1", at));
      items[at] = read(-1, join_path(path, static_cast<std::size_t>(at)));
      lua_pop(L_, 1);
    }
    Json result = Json::array();
    for (auto& [at, item] : items) {
      if (at != static_cast<lua_Integer>(result.size()) + 1)
        throw ValueError(path, fmt::format("has no item {}, but one at {}", result.size() + 1, at));
      result.push_back(std::move(item));
    }
    return result;
  }

  Json object(int index, const std::string& path) {
    std::map<std::string, Json> members;  // sorted: Lua's own order differs from run to run
    lua_pushnil(L_);
    while (lua_next(L_, index) != 0) {
      if (lua_type(L_, -2) != LUA_TSTRING)
        throw ValueError(path, fmt::format("has a key that is a {}", luaL_typename(L_, -2)));
      std::string key = text(-2, path);
      if (!is_plain_utf8(key))
        throw ValueError(path, fmt::format("has a key that is not UTF-8 text: \"{}\"", printable(key)));
      if (members.size() == kMaximumMembers)
        throw ValueError(path, fmt::format("has more than {} keys", kMaximumMembers));
      Json value = read(-1, join_path(path, key));
      members[std::move(key)] = std::move(value);
      lua_pop(L_, 1);
    }
    Json result = Json::object();
    for (auto& [key, value] : members) result[key] = std::move(value);
    return result;
  }

  lua_State* L_;
  std::vector<const void*> open_;  // tables that are being read
  std::size_t values_ = 0, text_ = 0;
};

}  // namespace

std::string join_path(const std::string& path, std::string_view key) {
  return path.empty() ? std::string(key) : fmt::format("{}.{}", path, key);
}

std::string join_path(const std::string& path, std::size_t index) { return fmt::format("{}[{}]", path, index); }

Json to_json(lua_State* L, int index, const std::string& path) {
  const int top = lua_gettop(L);
  try {
    return Reader(L).read(index, path);
  } catch (...) {
    lua_settop(L, top);
    throw;
  }
}

void push_json(lua_State* L, const Json& value) {
  luaL_checkstack(L, 4, "nested too deeply");
  switch (value.type()) {
    case Json::value_t::boolean:
      lua_pushboolean(L, value.get<bool>() ? 1 : 0);
      return;
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned:
      lua_pushinteger(L, value.get<lua_Integer>());
      return;
    case Json::value_t::number_float:
      lua_pushnumber(L, value.get<double>());
      return;
    case Json::value_t::string: {
      const auto& text = value.get_ref<const std::string&>();
      lua_pushlstring(L, text.data(), text.size());
      return;
    }
    case Json::value_t::array: {
      lua_createtable(L, static_cast<int>(value.size()), 0);
      lua_Integer at = 0;
      for (const Json& item : value) {
        item.is_null() ? lua_pushboolean(L, 0) : push_json(L, item);
        lua_rawseti(L, -2, ++at);
      }
      return;
    }
    case Json::value_t::object:
      lua_createtable(L, 0, static_cast<int>(value.size()));
      for (const auto& [key, item] : value.items()) {
        if (item.is_null()) continue;
        lua_pushlstring(L, key.data(), key.size());
        push_json(L, item);
        lua_rawset(L, -3);
      }
      return;
    default:
      lua_pushnil(L);
      return;
  }
}

}  // namespace railyard::lua
