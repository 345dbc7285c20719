// Lines of keys in Lua text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lua/source/source_map.hpp"

namespace railyard::lua {
namespace {

std::string place(const SourceMap& map, const std::string& path) {
  const auto found = map.find(path);
  return found ? std::to_string(found->line) + (found->exact ? "" : " around") : "nowhere";
}

TEST(SourceMap, finds_keys_in_nested_tables) {
  const SourceMap map(R"(local models = require "railyard.models"
return job {
  name = "x", -- name = 5
  model = models.llama {
    layers = 4,
    ["hidden"] = 8,
  },
  data = { train = {
    { path = "a" },
    { path = "b",
      weight = f(1, { x = 2 }, function() return 1, 2 end) },
  } },
  train = { iterations = (1 + 2) * 3, lr = { peak = 1e-3 } }
})",
                      "job");
  EXPECT_EQ(place(map, "name"), "3");
  EXPECT_EQ(place(map, "model.layers"), "5");
  EXPECT_EQ(place(map, "model.hidden"), "6");
  EXPECT_EQ(place(map, "model.heads"), "4 around");
  EXPECT_EQ(place(map, "data.train[2].path"), "10");
  EXPECT_EQ(place(map, "data.train[2].weight"), "11");
  EXPECT_EQ(place(map, "train.lr.peak"), "13");
  EXPECT_EQ(place(map, "eval"), "2 around");
}

TEST(SourceMap, follows_variables_and_assignments) {
  const SourceMap map(R"(local lr <const> = {
  peak = 1,
}
local train = { lr = lr }
train.iterations = 5
train.lr.min =
  0
local all = { train = train, }
return job(all))",
                      "job");
  EXPECT_EQ(place(map, "train.lr.peak"), "2");
  EXPECT_EQ(place(map, "train.iterations"), "5");
  EXPECT_EQ(place(map, "train.lr.min"), "6");
  EXPECT_EQ(place(map, "train.seed"), "8 around");
}

TEST(SourceMap, reports_keys_that_are_given_twice) {
  const SourceMap map("return job { a = 1,\n b = { a = 2 },\n a = 3 }", "job");
  EXPECT_THAT(map.repeated_keys(),
              testing::ElementsAre("3: a is given twice, here and at line 1; the last one counts"));
}

TEST(SourceMap, knows_the_only_line_of_a_key) {
  const SourceMap map("local t = { peek = 1 }\nlocal u = { x = 1, y = 2 }\nlocal v = { x = 1 }", "job");
  EXPECT_EQ(map.only_line_of("peek"), 1);
  EXPECT_EQ(map.only_line_of("x"), std::nullopt);
  EXPECT_EQ(place(map, "peek"), "nowhere");
}

TEST(SourceMap, takes_any_text) {
  const std::string deep(100000, '{');
  for (const std::string& text :
       {std::string(), deep, std::string("return job"), std::string("return job {"), std::string("job { ["),
        std::string("job { [\"a\"] ="), std::string("x ="), std::string("x.y.z = = {"),
        std::string("job { a = b = c, }}}"), std::string("a = a\nreturn job(a)"),
        std::string("a = b b = a return job(a)"), std::string("--[[")})
    (void)SourceMap(text, "job").find("a.b.c");
}

}  // namespace
}  // namespace railyard::lua
