// Tokenizers: rules on small vocabularies made here, known answers where the vocabularies are at hand.
#include <gmock/gmock.h>
#include <sentencepiece_processor.h>

#include <chrono>
#include <cstring>
#include <random>

#include "runtime/base/error.hpp"
#include "runtime/base/json.hpp"
#include "runtime/data/tokenizer/bpe_tokenizer.hpp"
#include "runtime/data/tokenizer/tokenizer.hpp"
#include "runtime/data/tokenizer/utf8.hpp"
#include "tests/runtime/data/fixture.hpp"

namespace railyard::data {
namespace {

using test::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Ids = std::vector<std::int32_t>;

Ids encode(Tokenizer& tokenizer, std::string_view text, SpecialTokens special = SpecialTokens::kPlainText) {
  Ids ids;
  tokenizer.encode(text, ids, special);
  return ids;
}

std::string decode(const Tokenizer& tokenizer, const Ids& ids) {
  std::string text;
  tokenizer.decode(ids, text);
  return text;
}

template <class Action>
std::string message_of(Action action) {
  try {
    action();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

// A byte as GPT-2's alphabet writes it.
std::string letter(int byte) {
  for (std::uint32_t c = 0; c < 0x180; ++c) {
    std::string text;
    append_code_point(c, text);
    if (bytes_of_byte_level(text) == std::string(1, static_cast<char>(byte))) return text;
  }
  return "";
}

// All 256 bytes (id = byte), then the given merges in order, then <|endoftext|>.
Json byte_vocabulary(const std::vector<std::pair<std::string, std::string>>& merges) {
  Json vocab = Json::object();
  for (int b = 0; b < 256; ++b) vocab[letter(b)] = b;
  for (const auto& [a, b] : merges) vocab[a + b] = vocab.size();
  return vocab;
}

const std::vector<std::pair<std::string, std::string>> kMerges{{"h", "e"},    {"l", "l"},        {"he", "ll"},
                                                               {"hell", "o"}, {"\xc4\xa0", "w"}, {"o", "r"}};

std::unique_ptr<Tokenizer> small_gpt2(const TemporaryFolder& folder) {
  Json vocab = byte_vocabulary(kMerges);
  vocab["<|endoftext|>"] = vocab.size();
  folder.write("vocab.json", vocab.dump());
  std::string merges = "#version: 0.2\n";
  for (const auto& [a, b] : kMerges) merges += a + " " + b + "\n";
  folder.write("merges.txt", merges);
  return open_tokenizer({"gpt2", folder.path().string()});
}

// A tokenizer.json of byte-level BPE with the small merges and whatever `more` sets.
std::unique_ptr<Tokenizer> small_huggingface(const TemporaryFolder& folder, const Json& more) {
  Json merges = Json::array();
  for (const auto& [a, b] : kMerges) merges.push_back({a, b});
  Json json{{"model", {{"type", "BPE"}, {"vocab", byte_vocabulary(kMerges)}, {"merges", merges}}},
            {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
            {"decoder", {{"type", "ByteLevel"}}},
            {"normalizer", nullptr},
            {"added_tokens", Json::array()}};
  json.merge_patch(more);
  folder.write("tokenizer.json", json.dump());
  return open_tokenizer({"huggingface", (folder / "tokenizer.json").string()});
}

TEST(Gpt2, MergesByRankWithinPieces) {
  const TemporaryFolder folder;
  const auto tokenizer = small_gpt2(folder);
  EXPECT_THAT(encode(*tokenizer, "hello world"), ElementsAre(259, 260, 261, 'l', 'd'));
  EXPECT_THAT(encode(*tokenizer, "hell llo"), ElementsAre(258, ' ', 257, 'o'));
  EXPECT_EQ(tokenizer->eod(), 262);
  EXPECT_EQ(tokenizer->vocab_size(), 263);
}

TEST(Gpt2, SpecialTextIsTextUnlessAskedFor) {
  const TemporaryFolder folder;
  const auto tokenizer = small_gpt2(folder);
  const std::string text = "a<|endoftext|>b";
  EXPECT_EQ(encode(*tokenizer, text).size(), text.size());  // byte by byte: no merge applies
  EXPECT_THAT(encode(*tokenizer, text, SpecialTokens::kRecognised), ElementsAre('a', 262, 'b'));
  EXPECT_EQ(decode(*tokenizer, {'a', 262, 'b'}), text);
}

TEST(Gpt2, AnyBytesComeBack) {
  const TemporaryFolder folder;
  const auto tokenizer = small_gpt2(folder);
  std::string all;
  for (int a = 0; a < 256; ++a)
    for (int b = 0; b < 256; b += 7) all += std::string{static_cast<char>(a), static_cast<char>(b), 'h', 'e'};
  for (const std::string& text :
       {all, std::string("\xff\xfe hello\xc3"), std::string("\xed\xa0\x80"), std::string("a\0b", 3), std::string()})
    EXPECT_EQ(decode(*tokenizer, encode(*tokenizer, text)), text);
}

TEST(Gpt2, LongPiecesTakeNearlyLinearTime) {
  const TemporaryFolder folder;
  const auto tokenizer = small_gpt2(folder);
  std::string text;
  while (text.size() < 4'000'000) text += "hello";
  const auto start = std::chrono::steady_clock::now();
  const Ids ids = encode(*tokenizer, text);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));  // a quadratic way takes hours
  EXPECT_EQ(ids.size(), 800'000U);
  EXPECT_EQ(ids[799'999], 259);
}

TEST(Gpt2, ShortAndLongMergingAgree) {
  const TemporaryFolder folder;
  const auto tokenizer = small_gpt2(folder);
  std::string text;
  std::uint32_t state = 1;
  for (int i = 0; i < 63; ++i) text += "helor"[(state = state * 1664525U + 1013904223U) >> 24 & 3U];
  const Ids short_ids = encode(*tokenizer, text + "1");
  const Ids long_ids = encode(*tokenizer, text + text + text);
  EXPECT_EQ(decode(*tokenizer, long_ids), text + text + text);
  EXPECT_TRUE(std::equal(short_ids.begin(), short_ids.end() - 3, long_ids.begin()));
}

TEST(Gpt2, BadFilesAreExplained) {
  const TemporaryFolder folder;
  small_gpt2(folder);
  const auto fails = [&] { return message_of([&] { open_tokenizer({"gpt2", folder.path().string()}); }); };
  folder.write("merges.txt", "h e\nh\n");
  EXPECT_THAT(fails(), HasSubstr("merges.txt:2: not a merge"));
  folder.write("merges.txt", "h q\n");
  EXPECT_THAT(fails(), HasSubstr("not in the vocabulary"));
  folder.write("vocab.json", "{\"a\": \"b\"}");
  EXPECT_THAT(fails(), HasSubstr("vocab.json: vocabulary"));
  folder.write("vocab.json", "{\"a\": 99999999999}");
  EXPECT_THAT(fails(), HasSubstr("has id"));
  folder.write("vocab.json", "{\"a\": ");
  EXPECT_THAT(fails(), HasSubstr("not valid JSON"));
  std::filesystem::remove(folder / "vocab.json");
  EXPECT_THAT(fails(), HasSubstr("vocab.json: cannot read"));
}

TEST(HuggingFace, MergesMayBePairsOrStrings) {
  const TemporaryFolder folder;
  const auto pairs = small_huggingface(folder, Json::object());
  Json strings = Json::array();
  for (const auto& [a, b] : kMerges) strings.push_back(a + " " + b);
  const auto text = small_huggingface(folder, {{"model", {{"merges", strings}}}});
  EXPECT_THAT(encode(*pairs, "hello world"), ElementsAre(259, 260, 261, 'l', 'd'));
  EXPECT_EQ(encode(*text, "hello world"), encode(*pairs, "hello world"));
}

TEST(HuggingFace, WholePiecesFirstOnRequest) {
  const TemporaryFolder folder;
  Json vocab{{"world", 300}};  // no merge makes it
  EXPECT_THAT(encode(*small_huggingface(folder, {{"model", {{"vocab", vocab}}}}), "world"),
              ElementsAre('w', 261, 'l', 'd'));
  EXPECT_THAT(encode(*small_huggingface(folder, {{"model", {{"vocab", vocab}, {"ignore_merges", true}}}}), "world"),
              ElementsAre(300));
}

TEST(HuggingFace, NfcComesBeforeMerging) {
  const TemporaryFolder folder;
  const auto tokenizer = small_huggingface(folder, {{"normalizer", {{"type", "NFC"}}}});
  EXPECT_EQ(decode(*tokenizer, encode(*tokenizer, "cafe\xcc\x81!")), "caf\xc3\xa9!");
  EXPECT_EQ(decode(*tokenizer, encode(*tokenizer, "\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8")), "\xea\xb0\x81");  // Hangul
  EXPECT_EQ(decode(*tokenizer, encode(*tokenizer, "a\xcc\xa3\xcc\x87\xff")),
            "\xe1\xba\xa1\xcc\x87\xff");                                          // marks in order, invalid kept
  EXPECT_EQ(decode(*tokenizer, encode(*tokenizer, "\xe2\x84\xab")), "\xc3\x85");  // Angstrom sign
}

TEST(HuggingFace, AddedTokens) {
  const TemporaryFolder folder;
  const auto tokenizer = small_huggingface(
      folder, {{"added_tokens",
                {{{"id", 300}, {"content", "<think>"}, {"special", false}},
                 {{"id", 301}, {"content", "<|end|>"}, {"special", true}},
                 {{"id", 302}, {"content", "<think>more"}, {"special", false}, {"rstrip", true}, {"lstrip", true}}}}});
  EXPECT_THAT(encode(*tokenizer, "h<think>hello"), ElementsAre('h', 300, 259));
  EXPECT_THAT(encode(*tokenizer, "h  <think>more \nhello"),
              ElementsAre('h', 302, 259));  // the longest, with its white space
  EXPECT_EQ(encode(*tokenizer, "<|end|>").size(), 7U);
  EXPECT_THAT(encode(*tokenizer, "<|end|>", SpecialTokens::kRecognised), ElementsAre(301));
  EXPECT_EQ(tokenizer->vocab_size(), 303);
}

TEST(HuggingFace, SplitsInSequence) {
  const TemporaryFolder folder;
  const Json split{
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "Split"}, {"pattern", {{"Regex", "\\p{N}{1,3}"}}}, {"behavior", "Isolated"}, {"invert", false}},
        {{"type", "Split"}, {"pattern", {{"String", "or"}}}, {"behavior", "Removed"}},
        {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
  const auto tokenizer = small_huggingface(folder, {{"pre_tokenizer", split}});
  EXPECT_THAT(encode(*tokenizer, "1234hello"), ElementsAre('1', '2', '3', '4', 259));
  EXPECT_THAT(encode(*tokenizer, "worlor"), ElementsAre('w', 'l'));
}

TEST(HuggingFace, CharactersWithFallbackToBytes) {
  const TemporaryFolder folder;
  const std::string mark = "\xe2\x96\x81";
  Json vocab{{"<unk>", 0}, {mark, 1}, {"h", 2}, {"i", 3}, {"hi", 4}, {mark + "hi", 5}, {mark + mark, 6}};
  for (int b = 0; b < 256; ++b) vocab[fmt::format("<0x{:02X}>", b)] = 7 + b;
  const Json merges{"h i", mark + " hi", mark + " " + mark};
  const Json json{{"model",
                   {{"type", "BPE"},
                    {"vocab", vocab},
                    {"merges", merges},
                    {"byte_fallback", true},
                    {"fuse_unk", true},
                    {"unk_token", "<unk>"}}},
                  {"normalizer",
                   {{"type", "Sequence"},
                    {"normalizers",
                     {{{"type", "Prepend"}, {"prepend", mark}},
                      {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", mark}}}}}},
                  {"decoder",
                   {{"type", "Sequence"},
                    {"decoders",
                     {{{"type", "Replace"}, {"pattern", {{"String", mark}}}, {"content", " "}},
                      {{"type", "ByteFallback"}},
                      {{"type", "Fuse"}},
                      {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}}}};
  folder.write("tokenizer.json", json.dump());
  const auto tokenizer = open_tokenizer({"huggingface", folder.path().string()});
  EXPECT_THAT(encode(*tokenizer, "hi hi"), ElementsAre(5, 5));
  EXPECT_THAT(encode(*tokenizer, "hi   hi"), ElementsAre(5, 6, 5));
  EXPECT_THAT(encode(*tokenizer, "x\xc3\xa9"), ElementsAre(1, 7 + 'x', 7 + 0xC3, 7 + 0xA9));
  for (const char* text : {"hi hi", "  hi", "x\xc3\xa9 \xf0\x9f\x98\x80"})
    EXPECT_EQ(decode(*tokenizer, encode(*tokenizer, text)), text);
}

TEST(HuggingFace, WhatIsNotBuiltSaysSo) {
  const TemporaryFolder folder;
  const auto fails = [&](const Json& more) { return message_of([&] { small_huggingface(folder, more); }); };
  EXPECT_THAT(fails({{"normalizer", {{"type", "BertNormalizer"}}}}), HasSubstr("\"BertNormalizer\": not built yet"));
  EXPECT_THAT(fails({{"pre_tokenizer", {{"type", "Whitespace"}}}}), HasSubstr("not built yet"));
  EXPECT_THAT(fails({{"model", {{"type", "Unigram"}}}}), HasSubstr("model \"Unigram\": not built yet"));
  EXPECT_THAT(fails({{"model", {{"merges", {"a"}}}}}), HasSubstr("model.merges[0]"));
  EXPECT_THAT(fails({{"model", {{"merges", Json::array({Json::array({"h", "zzz"})})}}}}),
              HasSubstr("not all in model.vocab"));
  EXPECT_THAT(fails({{"added_tokens", {{{"id", -4}, {"content", "x"}}}}}), HasSubstr("has id -4"));
  EXPECT_THAT(fails({{"pre_tokenizer", {{"type", "Split"}, {"pattern", {{"Regex", "("}}}, {"behavior", "Isolated"}}}}),
              HasSubstr("cannot be used"));
}

TEST(Tiktoken, UnknownSizesAndBadLinesAreExplained) {
  const TemporaryFolder folder;
  const auto fails = [&](const std::string& text) {
    folder.write("x.tiktoken", text);
    return message_of([&] { open_tokenizer({"tiktoken", (folder / "x.tiktoken").string()}); });
  };
  EXPECT_THAT(fails("YQ== 0\nYg== 1\n"), HasSubstr("2 ranks: the pattern"));
  EXPECT_THAT(fails("YQ== 0\nnonsense\n"), HasSubstr("x.tiktoken:2: expected"));
  EXPECT_THAT(fails("YQ== -3\n"), HasSubstr(":1: expected"));
}

TEST(SentencePiece, NotAModelIsExplained) {
  const TemporaryFolder folder;
  folder.write("x.model", "not a model");
  EXPECT_THAT(message_of([&] {
                open_tokenizer({"sentencepiece", (folder / "x.model").string()});
              }),
              HasSubstr("not a SentencePiece model"));
}

// How many characters a pattern matches.
int matching_characters(const std::string& pattern) {
  const Regex regex(pattern, "test");
  Matcher matcher;
  int found = 0;
  for (std::uint32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string text;
    append_code_point(c, text);
    std::size_t first = 0, last = 0;
    found += matcher.find(regex, text, 0, first, last) ? 1 : 0;
  }
  return found;
}

TEST(Regex, WhitespaceIsThatOfUnicode) {
  EXPECT_EQ(spell_out_classes("a\\s+[^\\s\\]x]").find("\\s"), std::string::npos);
  EXPECT_EQ(spell_out_classes("\\\\s"), "\\\\s");  // a backslash, then an s
  EXPECT_EQ(matching_characters("\\s"), 25);
}

// As Hugging Face tokenizers and tiktoken count them (Unicode 16).
TEST(Regex, CategoriesAreThoseOfUnicode16) {
  const std::pair<const char*, int> sizes[] = {{"\\p{L}", 141028},
                                               {"\\p{Lu}", 1858},
                                               {"[\\p{Ll}]", 2258},
                                               {"\\pM", 2501},
                                               {"\\p{N}", 1911},
                                               {"[\\p{P}]", 855},
                                               {"\\p{S}", 8514},
                                               {"\\P{L}", 0x110000 - 0x800 - 141028},
                                               {"[^\\p{N}]", 0x110000 - 0x800 - 1911}};
  for (const auto& [pattern, size] : sizes) EXPECT_EQ(matching_characters(pattern), size) << pattern;
}

// A SentencePiece byte-pair model with byte fallback and a piece of the user's own, in protocol-buffer bytes.
std::string small_sentencepiece() {
  const auto field = [](int number, const std::string& bytes) {
    return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size())} + bytes;
  };
  const auto number = [](int key, int value) {
    return std::string{static_cast<char>(key << 3), static_cast<char>(value)};
  };
  const auto piece = [&](const std::string& text, float score, int type) {
    std::string bits(4, '\0');
    std::memcpy(bits.data(), &score, 4);
    return field(1, field(1, text) + "\x15" + bits + number(3, type));
  };
  std::string model = piece("<unk>", 0, 2) + piece("<s>", 0, 3) + piece("</s>", 0, 3) + piece("[TOOL]", 0, 4);
  for (int b = 0; b < 256; ++b) model += piece(fmt::format("<0x{:02X}>", b), 0, 6);
  const std::string mark = "\xe2\x96\x81";
  float score = 0;
  for (const std::string& text : {std::string("ab"), mark + "a", mark + "ab", mark + mark, std::string("ba"), mark,
                                  std::string("a"), std::string("b"), std::string("["), std::string("\xc3\xa9")})
    model += piece(text, score--, 1);
  return model + field(2, number(3, 2) + "\x98\x02\x01") +
         field(3, field(1, "identity") + number(3, 1) + number(4, 0) + number(5, 1));
}

TEST(SentencePiece, EncodesAsTheLibraryDoes) {
  const TemporaryFolder folder;
  folder.write("x.model", small_sentencepiece());
  const auto tokenizer = open_tokenizer({"sentencepiece", (folder / "x.model").string()});
  sentencepiece::SentencePieceProcessor library;
  ASSERT_TRUE(library.LoadFromSerializedProto(small_sentencepiece()).ok());
  const std::vector<std::string> parts{"a", "b", "ab", " ", "  ", "[TOOL]", "[TOOL", "\xc3\xa9", "\xf0\x9f\x99\x82",
                                       "[", "\n"};
  std::mt19937 random(5);
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (unsigned i = 1 + random() % 12; i > 0; --i) text += parts[random() % parts.size()];
    std::vector<int> theirs;
    ASSERT_TRUE(library.Encode(text, &theirs).ok());
    const Ids ours = encode(*tokenizer, text);
    ASSERT_EQ(ours, Ids(theirs.begin(), theirs.end())) << text;
    ASSERT_EQ(decode(*tokenizer, ours), text);
  }
  const std::string broken = "a\xff b\xc3 [TOOL]\xed\xa0\x80";
  EXPECT_EQ(decode(*tokenizer, encode(*tokenizer, broken)), broken);
}

// Its NFC is of an older Unicode: U+0898 has no combining class there, so it stays where it is.
TEST(Normalizer, NfcIsThatOfHuggingFace) {
  Normalizer normalizer;
  normalizer.add({.kind = Normalizer::Kind::kNfc});
  std::string buffer;
  EXPECT_EQ(normalizer.apply("e\xcc\x81", true, buffer), "\xc3\xa9");
  EXPECT_EQ(normalizer.apply("a\xcd\x85\xcc\xb4", true, buffer), "a\xcc\xb4\xcd\x85");
  EXPECT_EQ(normalizer.apply("a\xcd\x85\xe0\xa2\x98", true, buffer), "a\xcd\x85\xe0\xa2\x98");
  EXPECT_EQ(normalizer.apply("\xe0\xa2\x98\xcc\xb4x", true, buffer), "\xe0\xa2\x98\xcc\xb4x");
}

TEST(Spec, TypesAndPaths) {
  EXPECT_EQ(parse_tokenizer_spec("gpt2:/a:b").path, "/a:b");
  EXPECT_EQ(parse_tokenizer_spec("bytes").type, "bytes");
  EXPECT_THAT(message_of([] { parse_tokenizer_spec("bpe:/a"); }), HasSubstr("unknown type \"bpe\""));
  EXPECT_THAT(message_of([] { open_tokenizer({"gpt2", ""}); }), HasSubstr("needs a path"));
}

// Answers by implementations that are not ours; only where the vocabularies are at hand.
TEST(KnownAnswers, PublishedVocabularies) {
  const std::string odd = "  two  spaces\n\n\nnew 12345 don't I'LL";
  const auto gpt2 = test::material("tokenizers/gpt2"), qwen = test::material("tokenizers/qwen3/tokenizer.json"),
             mistral = test::material("tokenizers/mistral/tokenizer.model.v3"),
             shakespeare = test::material("tinyshakespeare.txt");
  if (gpt2.empty() || qwen.empty() || mistral.empty() || shakespeare.empty())
    GTEST_SKIP() << "the published vocabularies are not beside the repository";
  auto tokenizer = open_tokenizer({"gpt2", gpt2.string()});
  EXPECT_EQ(encode(*tokenizer, "Hello world"), (Ids{15496, 995}));
  EXPECT_EQ(encode(*tokenizer, odd), (Ids{220, 734, 220, 9029, 628, 198, 3605, 17031, 2231, 836, 470, 314, 6, 3069}));
  const std::string text = read_file(shakespeare);
  EXPECT_EQ(encode(*tokenizer, std::string_view(text).substr(0, 1003854)).size(), 301966U);  // nanoGPT's own counts
  EXPECT_EQ(encode(*tokenizer, std::string_view(text).substr(1003854)).size(), 36059U);
  tokenizer = open_tokenizer({"huggingface", qwen.string()});
  EXPECT_EQ(encode(*tokenizer, "Hello world"), (Ids{9707, 1879}));
  EXPECT_EQ(encode(*tokenizer, odd),
            (Ids{220, 1378, 220, 12621, 1406, 931, 220, 16, 17, 18, 19, 20, 1513, 944, 358, 6, 4086}));
  tokenizer = open_tokenizer({"sentencepiece", mistral.string()});
  EXPECT_EQ(decode(*tokenizer, encode(*tokenizer, odd)), odd);
}

}  // namespace
}  // namespace railyard::data
