// The strict reader: what the format allows is read, every broken rule is an error; and what we write reads back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "runtime/base/error.hpp"
#include "runtime/checkpoint/safetensors.hpp"
#include "tests/runtime/checkpoint/scratch.hpp"

namespace railyard {
namespace {

using testing::HasSubstr;

SafetensorsHeader parse(const std::string& json, std::uint64_t data_bytes) {
  return SafetensorsHeader::parse(json, data_bytes, "test");
}

std::string error_of(const std::string& json, std::uint64_t data_bytes) {
  try {
    static_cast<void>(parse(json, data_bytes));
    return "accepted";
  } catch (const UsageError& error) {
    return error.what();
  }
}

std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"t":)" + entry(dtype, shape, offsets) + "}";
}

TEST(Safetensors, AcceptsWhatTheFormatAllows) {
  EXPECT_TRUE(parse("{}", 0).tensors().empty());
  EXPECT_TRUE(parse("  {} \n\t ", 0).tensors().empty());
  EXPECT_EQ(parse(R"({"__metadata__":{"framework":"pt"}})", 0).metadata().at("framework"), "pt");
  EXPECT_EQ(parse(one("I32", "[2,2]", "[0,16]"), 16).find("t")->shape, (Extents{2, 2}));
  EXPECT_EQ(parse(one("I32", "[]", "[0,4]"), 4).find("t")->shape, Extents{});
  EXPECT_EQ(parse(one("I32", "[2,0]", "[0,0]"), 0).find("t")->bytes(), 0U);
  EXPECT_EQ(parse(one("F4", "[4]", "[0,2]"), 2).find("t")->dtype, "F4");
  // Names in another order than the bytes, empty tensors between, any name.
  const auto header = parse(R"({"b":)" + entry("U8", "[3]", "[2,5]") + R"(,"":)" + entry("U8", "[2]", "[0,2]") +
                                R"(,"e":)" + entry("F32", "[0]", "[2,2]") + "}",
                            5);
  EXPECT_EQ(header.tensors()[0].name, "");
  EXPECT_EQ(header.tensors()[1].name, "e");
  EXPECT_EQ(header.find("b")->begin, 2U);
  EXPECT_EQ(header.find("missing"), nullptr);
}

struct Attack {
  const char* what;
  std::string json;
  std::uint64_t data_bytes;
  const char* message;
};

TEST(Safetensors, RefusesEveryBrokenRule) {
  const std::vector<Attack> attacks = {
      {"no header", "", 0, "does not begin with {"},
      {"blank header", "   ", 0, "does not begin with {"},
      {"half an object", "{", 0, "no valid JSON"},
      {"no object", "[]", 0, "does not begin with {"},
      {"byte order mark", "\xef\xbb\xbf{}", 0, "does not begin with {"},
      {"zero padding", std::string("{}\0\0\0\0\0\0", 8), 0, "zero byte"},
      {"zero byte hides a rest", std::string("{}\0{\"x\"", 7), 0, "zero byte"},
      {"text after the object", "{} {}", 0, "no valid JSON"},
      {"not UTF-8", "{\"\xff\":{}}", 0, "no valid JSON"},
      {"lone surrogate", R"({"\ud800":{}})", 0, "no valid JSON"},
      {"control character in a name", "{\"a\nb\":{}}", 0, "no valid JSON"},
      {"overlap", R"({"a":)" + entry("I32", "[2,2]", "[0,16]") + R"(,"b":)" + entry("I32", "[2,2]", "[0,16]") + "}", 32,
       "begins at byte 0, but the one before ends at 16"},
      {"more than there is",
       R"({"a":)" + entry("I32", "[2,2]", "[0,16]") + R"(,"b":)" + entry("I32", "[2,2]", "[0,16]") + "}", 16,
       "need more than the 16 bytes"},
      {"hole", R"({"a":)" + entry("U8", "[1]", "[0,1]") + R"(,"b":)" + entry("U8", "[1]", "[2,3]") + "}", 3,
       "begins at byte 2"},
      {"late start", one("U8", "[1]", "[1,2]"), 2, "begins at byte 1"},
      {"trailing data", one("U8", "[1]", "[0,1]"), 2, "end at byte 1, but there are 2"},
      {"cut short", one("I32", "[2,2]", "[0,16]"), 14, "do not lie in the 14 bytes"},
      {"too few bytes for the shape", one("I32", "[2,2]", "[0,4]"), 4, "needs 16 bytes"},
      {"product overflows", one("U8", "[2,9223372036854775807]", "[0,16]"), 16, "no possible size"},
      {"extent overflows", one("U8", "[2,18446744073709551614]", "[0,16]"), 16, "too large"},
      {"bits overflow", one("U64", "[4611686018427387904]", "[0,0]"), 0, "no possible size"},
      {"half a byte", one("F4", "[3]", "[0,1]"), 1, "no possible size"},
      {"end before begin", one("U8", "[1]", "[1,0]"), 1, "do not lie"},
      {"negative extent", one("U8", "[-1]", "[0,1]"), 1, "a negative number"},
      {"minus zero", one("U8", "[1]", "[-0,1]"), 1, "a negative number"},
      {"fraction", one("U8", "[1.0]", "[0,1]"), 1, "the number 1.0"},
      {"exponent", one("U8", "[1e0]", "[0,1]"), 1, "the number 1e0"},
      {"beyond 64 bits", one("U8", "[1]", "[0,18446744073709551616]"), 1, "the number 18446744073709551616"},
      {"number as text", one("U8", "[\"1\"]", "[0,1]"), 1, "a string"},
      {"null", one("U8", "null", "[0,1]"), 1, "null"},
      {"nested shape", one("U8", "[[1]]", "[0,1]"), 1, "a list"},
      {"deep nesting", one("U8", std::string(100000, '['), "[0,1]"), 1, "a list"},
      {"deep objects", std::string(100000, '{'), 1, "no valid JSON"},
      {"one offset", one("U8", "[1]", "[1]"), 1, "needs two numbers"},
      {"three offsets", one("U8", "[1]", "[0,1,2]"), 1, "more than two"},
      {"unknown type", one("F33", "[1]", "[0,1]"), 1, "unknown dtype"},
      {"lower case type", one("f32", "[1]", "[0,4]"), 4, "unknown dtype"},
      {"missing key", R"({"t":{"dtype":"U8","shape":[1]}})", 1, "needs dtype, shape and data_offsets"},
      {"unknown key", R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":1}})", 1, "unknown key"},
      {"key twice", R"({"t":{"dtype":"U8","dtype":"I8","shape":[1],"data_offsets":[0,1]}})", 1, "stands twice"},
      {"tensor twice", R"({"t":)" + entry("U8", "[1]", "[0,1]") + R"(,"t":)" + entry("U8", "[1]", "[1,2]") + "}", 2,
       "stands twice"},
      {"tensor is a number", R"({"t":1})", 0, "a number, not an object"},
      {"metadata is a list", R"({"__metadata__":[]})", 0, "a list"},
      {"metadata holds a number", R"({"__metadata__":{"a":1}})", 0, "a number"},
      {"metadata nests", R"({"__metadata__":{"a":{}}})", 0, "an object"},
      {"metadata twice", R"({"__metadata__":{},"__metadata__":{}})", 0, "stands twice"},
      {"metadata key twice", R"({"__metadata__":{"a":"1","a":"2"}})", 0, "stands twice"},
  };
  for (const Attack& attack : attacks)
    EXPECT_THAT(error_of(attack.json, attack.data_bytes), HasSubstr(attack.message)) << attack.what;
}

TEST(Safetensors, ManyTensorsOnTheSameBytesFailEarly) {
  std::string json = "{";
  for (int i = 0; i < 100000; ++i) {
    if (i > 0) json += ',';
    json += "\"" + std::to_string(i) + "\":" + entry("U8", "[16]", "[0,16]");
  }
  EXPECT_THAT(error_of(json + "}", 16), HasSubstr("tensor \"1\": the tensors need more than the 16 bytes"));
}

std::string file_error(const std::filesystem::path& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
  try {
    const SafetensorsReader reader(path);
    return "accepted";
  } catch (const UsageError& error) {
    return error.what();
  }
}

std::string with_length(std::uint64_t length, const std::string& rest) {
  std::string out(8, '\0');
  std::memcpy(out.data(), &length, 8);
  return out + rest;
}

TEST(Safetensors, RefusesFilesWhoseLengthLies) {
  const test::ScratchFolder folder;
  const auto path = folder / "x.safetensors";
  EXPECT_THAT(file_error(path, ""), HasSubstr("only 0 bytes"));
  EXPECT_THAT(file_error(path, "1234567"), HasSubstr("only 7 bytes"));
  EXPECT_THAT(file_error(path, with_length(1000, "{}")), HasSubstr("was it cut short"));
  EXPECT_THAT(file_error(path, with_length(~0ULL, "{}")), HasSubstr("at most 100000000"));
  EXPECT_THAT(file_error(path, with_length(100000001, "{}")), HasSubstr("at most 100000000"));
  EXPECT_THAT(file_error(path, with_length(2, "{}x")), HasSubstr("there are 1 bytes of data"));
  EXPECT_EQ(file_error(path, with_length(8, "{}      ")), "accepted");
  EXPECT_THAT(file_error("/nonexistent/x", ""), HasSubstr("No such file"));
  try {
    const SafetensorsReader reader(folder.path());
    FAIL() << "a folder was read";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("no regular file"));
  }
}

TEST(Safetensors, WrittenFilesReadBack) {
  const test::ScratchFolder folder;
  const auto path = folder / "x.safetensors";
  const std::vector<float> weights = {1.0F, -2.0F, 3.5F, 0.0F, 5.0F, 6.0F};
  const std::vector<std::uint8_t> mask = {1, 0, 1};
  SafetensorsWriter writer(path, {{"mask", "BOOL", {3}}, {"b\"\\\n", "F32", {3, 2}}, {"none", "F16", {0}}},
                           {{"format", "pt"}});
  EXPECT_EQ(writer.tensors()[0].name, "b\"\\\n");  // wider types first
  EXPECT_EQ(writer.tensors()[1].name, "none");
  // The second half before the first.
  writer.write(writer.tensors()[0], 12, std::as_bytes(std::span(weights)).subspan(12));
  writer.write(writer.tensors()[0], 0, std::as_bytes(std::span(weights)).first(12));
  writer.write(writer.tensors()[2], 0, std::as_bytes(std::span(mask)));
  writer.finish();

  const SafetensorsReader reader(path);
  EXPECT_EQ(reader.data_position() % 8, 0U);
  EXPECT_EQ(reader.header().metadata().at("format"), "pt");
  std::vector<float> back(4);
  reader.read(reader.at("b\"\\\n"), 8, std::as_writable_bytes(std::span(back)));
  EXPECT_THAT(back, testing::ElementsAre(3.5F, 0.0F, 5.0F, 6.0F));
  EXPECT_EQ(reader.at("mask").type(), DType::kBool);
  EXPECT_THROW(static_cast<void>(reader.at("nothing")), UsageError);
}

TEST(Safetensors, RefusesToWriteWhatCannotBeRead) {
  std::vector<TensorEntry> twice = {{"a", "F32", {1}}, {"a", "F32", {1}}};
  EXPECT_THROW(layout_safetensors(twice, {}), UsageError);
  std::vector<TensorEntry> odd = {{"a", "F4", {1}}};
  EXPECT_THROW(layout_safetensors(odd, {}), UsageError);
  std::vector<TensorEntry> reserved = {{"__metadata__", "F32", {1}}};
  EXPECT_THROW(layout_safetensors(reserved, {}), UsageError);
}

}  // namespace
}  // namespace railyard
