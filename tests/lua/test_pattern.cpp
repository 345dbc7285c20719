// Our pattern functions against Lua's own: the same results and the same refusals, on known cases and on random ones.
#include <gtest/gtest.h>

#include <lua.hpp>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "lua/host/libraries.hpp"
#include "lua/host/meter.hpp"

namespace railyard::lua {
namespace {

struct Closer {
  void operator()(lua_State* L) const { lua_close(L); }
};
using Lua = std::unique_ptr<lua_State, Closer>;

// What a chunk returns, as one text; or its error, without the place.
std::string outcome(lua_State* L, const std::string& chunk) {
  lua_settop(L, 0);
  if (luaL_loadbuffer(L, chunk.data(), chunk.size(), "=x") != LUA_OK || lua_pcall(L, 0, LUA_MULTRET, 0) != LUA_OK) {
    std::string message = lua_tostring(L, -1);
    const auto place = message.find(": ");
    return "error: " + (place == std::string::npos ? message : message.substr(place + 2));
  }
  std::string text;
  for (int i = 1; i <= lua_gettop(L); ++i) {
    std::size_t size = 0;
    const char* value = luaL_tolstring(L, i, &size);
    text += std::string(luaL_typename(L, i)) + ":" + std::string(value, size) + ";";
    lua_pop(L, 1);
  }
  return text;
}

std::string lua_literal(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    char escaped[8];
    std::snprintf(escaped, sizeof escaped, "\\%03d", static_cast<unsigned char>(c));
    result += escaped;
  }
  return result + "\"";
}

class Patterns : public testing::Test {
 protected:
  Patterns() : meter_(Limits{}), theirs_(luaL_newstate()), ours_(lua_newstate(Meter::allocate, &meter_)) {
    luaL_openlibs(theirs_.get());
    lua_pushcfunction(ours_.get(), [](lua_State* L) {
      open_libraries(L);
      return 0;
    });
    EXPECT_EQ(lua_pcall(ours_.get(), 0, 0, 0), LUA_OK);
  }

  void expect_same(const std::string& chunk) {
    EXPECT_EQ(outcome(ours_.get(), chunk), outcome(theirs_.get(), chunk)) << chunk;
  }

  void expect_same(const std::string& subject, const std::string& pattern) {
    const std::string arguments = lua_literal(subject) + ", " + lua_literal(pattern);
    expect_same("return string.find(" + arguments + ")");
    expect_same("return string.match(" + arguments + ", 2)");
    expect_same("return string.gsub(" + arguments + ", '<%0>')");
    expect_same("local t = {} for a, b in string.gmatch(" + arguments +
                ") do t[#t + 1] = tostring(a) .. tostring(b) end return table.concat(t, '|')");
  }

  Meter meter_;  // outlives the state that allocates from it
  Lua theirs_, ours_;
};

TEST_F(Patterns, agree_on_the_usual_forms) {
  const std::vector<std::pair<std::string, std::string>> cases{{"hello world", "o w"},
                                                               {"hello world", "l+"},
                                                               {"key = value", "^(%w+)%s*=%s*(%w+)$"},
                                                               {"a,b,,c", "([^,]*)"},
                                                               {"f(a(b)c)d", "%b()"},
                                                               {"THE (quick) fox", "%f[%a]%a+"},
                                                               {"abcabc", "(abc)%1"},
                                                               {"x", "()"},
                                                               {"", ""},
                                                               {"", "^$"},
                                                               {"aaa", "a-"},
                                                               {"aaa", "a-$"},
                                                               {"2024-01-31", "(%d+)-(%d+)-(%d+)"},
                                                               {"a.b", "%."},
                                                               {"[x]", "[]]"},
                                                               {"[x]", "[^]]"},
                                                               {"a-z", "[a%-z]+"},
                                                               {"a-z", "[a-]+"},
                                                               {std::string("a\0b", 3), std::string("%z", 2)},
                                                               {std::string("a\0b", 3), std::string("\0", 1)},
                                                               {"abc", "%a%a?%a?%a?"},
                                                               {"aXb", "%u"},
                                                               {"$100", "%$(%d+)"},
                                                               {"a$", "a$$"},
                                                               {"^a", "%^a"},
                                                               {"aab", "a*ab"},
                                                               {"x^y", "x^y"}};
  for (const auto& [subject, pattern] : cases) expect_same(subject, pattern);
}

TEST_F(Patterns, agree_on_arguments_and_replacements) {
  for (const char* chunk :
       {"return ('abc'):find('b', -2)", "return ('abc'):find('b', 10)", "return ('abc'):find('', 4)",
        "return ('abc'):find('', 5)", "return ('a.c'):find('.', 1, true)", "return ('abc'):gsub('%w', '%0%0', 2)",
        "return ('abc'):gsub('%w', {a = 1, b = false})", "return ('abc'):gsub('(%w)(%w)', '%2%1')",
        "return ('abc'):gsub('%w', function(c) if c == 'b' then return 'X' end end)", "return ('abc'):gsub('', '-')",
        "return ('abc'):gsub('%w', '%2')", "return ('abc'):gsub('%w', '%')", "return ('abc'):gsub('b', true)",
        "return ('abc'):gsub('^a', 'x')", "return ('hello'):match('(h)(.)(.)')", "return string.rep('ab', 3, ',')",
        "return ('abc'):gsub('%w', function() return {} end)", "return ('abc'):gsub('b', '%%')",
        "return ('x'):rep(-1)"})
    expect_same(chunk);
}

// The words differ between versions of Lua; and some faults Lua finds only when the match comes to them.
TEST_F(Patterns, refuse_the_same_patterns) {
  for (const char* pattern :
       {"%", "[a", "[a%", "(", "(a))", "%b", "%bx", "%f", "%fa", "%1", "(%1)", "[]", "[^]", "(()"}) {
    const std::string chunk = "return string.find(\"abc\", " + lua_literal(pattern) + ")";
    EXPECT_TRUE(outcome(theirs_.get(), chunk).starts_with("error: ")) << pattern;
    EXPECT_TRUE(outcome(ours_.get(), chunk).starts_with("error: ")) << pattern;
  }
}

TEST_F(Patterns, agree_on_random_patterns) {
  std::mt19937 random(20240501);
  const std::vector<std::string> pieces{"a", "b", ".",  "%a", "%d", "%s", "[ab]", "[^a]",  "*",      "+", "-", "?",
                                        "(", ")", "()", "^",  "$",  "%1", "%b()", "%f[a]", "%f[%W]", "%", "[", "]"};
  const std::string letters = "ab1 ()";
  int refused = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string subject, pattern;
    for (unsigned i = random() % 12; i > 0; --i) subject += letters[random() % letters.size()];
    for (unsigned i = random() % 7; i > 0; --i) pattern += pieces[random() % pieces.size()];
    const std::string arguments = lua_literal(subject) + ", " + lua_literal(pattern);
    const std::string chunk = "return string.match(" + arguments + ")";  // find() may search for plain text
    const std::string theirs = outcome(theirs_.get(), chunk), ours = outcome(ours_.get(), chunk);
    if (ours.starts_with("error: ")) {
      ++refused;
      continue;
    }
    ASSERT_EQ(ours, theirs) << chunk;
    expect_same(subject, pattern);
  }
  EXPECT_LT(refused, 3000);
}

}  // namespace
}  // namespace railyard::lua
