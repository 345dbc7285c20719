// Values and settings of the command line.
#include <gtest/gtest.h>

#include "lua/source/literal.hpp"
#include "runtime/base/error.hpp"

namespace railyard::lua {
namespace {

TEST(Literal, reads_what_lua_reads_as_a_literal) {
  EXPECT_EQ(parse_value("42"), Json(42));
  EXPECT_EQ(parse_value(" -7 "), Json(-7));
  EXPECT_EQ(parse_value("0x10"), Json(16));
  EXPECT_EQ(parse_value("3e-4"), Json(3e-4));
  EXPECT_EQ(parse_value("true"), Json(true));
  EXPECT_EQ(parse_value("nil"), Json(nullptr));
  EXPECT_EQ(parse_value("\"a\\tb\\u{e9}\\x41\""), Json("a\tb\xC3\xA9"
                                                       "A"));
  EXPECT_EQ(parse_value("'4'"), Json("4"));
  EXPECT_EQ(parse_value("[[long]]"), Json("long"));
  EXPECT_EQ(parse_value("{ 1, 2.5, 'x' }"), (Json::array({1, 2.5, "x"})));
  EXPECT_EQ(parse_value("{ a = { b = true }, ['c d'] = 1; }"), (Json{{"a", {{"b", true}}}, {"c d", 1}}));
  EXPECT_EQ(parse_value("{}"), Json::object());
  EXPECT_TRUE(parse_value("18446744073709551616").is_number_float());
}

TEST(Literal, takes_anything_else_as_a_string) {
  for (const char* text : {"1-2", "2024-01-31", "run 7", "a.b", "/data/x", "1e", "0x", "{ 1, a = 2 }", "{ f() }",
                           "'open", "-'x'", "2^10", "--", "5 -- five", "{", "nil nil", "1 2"})
    EXPECT_EQ(parse_value(text), Json(text));
}

Json applied(const char* document, const char* setting) {
  Json json = parse_json(document, "test");
  apply_setting(json, parse_setting(setting));
  return json;
}

TEST(Setting, makes_changes_and_removes_keys) {
  EXPECT_EQ(applied("{}", "a.b=1"), (Json{{"a", {{"b", 1}}}}));
  EXPECT_EQ(applied(R"({"a": {"b": 1, "c": 2}})", "a.b=nil"), (Json{{"a", {{"c", 2}}}}));
  EXPECT_EQ(applied(R"({"p": "auto"})", "p.tp=2"), (Json{{"p", {{"tp", 2}}}}));
  EXPECT_EQ(applied(R"({"l": [{"x": 1}, {"x": 2}]})", "l[2].x=5")["l"][1]["x"], Json(5));
  EXPECT_EQ(applied(R"({"l": [1, 2]})", "l.3=7")["l"], Json::array({1, 2, 7}));
  EXPECT_EQ(applied(R"({"l": [1, 2]})", "l[1]=nil")["l"], Json::array({2}));
  EXPECT_EQ(applied("{}", "a=b=c"), (Json{{"a", "b=c"}}));
}

TEST(Setting, refuses_what_it_cannot_do) {
  for (const char* text : {"a", "=1", ".a=1", "a..b=1", "a[x]=1", "a[1=1", "[1]=2"})
    EXPECT_THROW(parse_setting(text), UsageError) << text;
  EXPECT_THROW(applied(R"({"l": [1]})", "l[3]=1"), UsageError);
  EXPECT_THROW(applied(R"({"l": [1]})", "l.x=1"), UsageError);
  EXPECT_THROW(applied(R"({"l": [1]})", "l[0]=1"), UsageError);
}

}  // namespace
}  // namespace railyard::lua
