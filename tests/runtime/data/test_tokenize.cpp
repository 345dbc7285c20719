// From JSON lines to data sets: compression, order, stops, bad lines; merging and checking.
#include <gmock/gmock.h>
#include <zlib.h>
#include <zstd.h>

#include "runtime/base/error.hpp"
#include "runtime/base/json.hpp"
#include "runtime/data/indexed_dataset.hpp"
#include "runtime/data/indexed_writer.hpp"
#include "runtime/data/maintain.hpp"
#include "runtime/data/tokenize.hpp"
#include "tests/runtime/data/fixture.hpp"

namespace railyard::data {
namespace {

using test::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

template <class Action>
std::string message_of(Action action) {
  try {
    action();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

void quiet(const TokenizeProgress&) {}

TokenizeOptions options_of(std::vector<std::string> inputs, const std::filesystem::path& output) {
  TokenizeOptions options;
  options.inputs = std::move(inputs);
  options.output = output.string();
  options.tokenizer = {"bytes", ""};
  options.append_eod = true;
  return options;
}

std::string documents_of(const std::filesystem::path& prefix) {
  const IndexedDataset file(prefix);
  std::string out;
  for (std::int64_t d = 0; d < file.documents(); ++d) {
    for (std::int64_t s = file.document_bound(d); s < file.document_bound(d + 1); ++s) {
      std::vector<std::int32_t> ids(static_cast<std::size_t>(file.length(s)));
      file.read(s, 0, ids);
      for (const std::int32_t id : ids) out += id == 256 ? '$' : static_cast<char>(id);
    }
    out += '|';
  }
  return out;
}

std::string gzip(const std::string& text) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string zstd(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

// Many lines of differing length, a few megabytes.
std::string many_lines(int count) {
  std::string text;
  for (int i = 0; i < count; ++i)
    text += Json{{"id", i},
                 {"text", std::string(static_cast<std::size_t>(i * 7919 % 400), static_cast<char>('a' + i % 26)) +
                              std::to_string(i)}}
                .dump() +
            "\n";
  return text;
}

TEST(Tokenize, FollowsMegatronsRules) {
  const TemporaryFolder folder;
  const auto input = folder.write("a.jsonl",
                                  "{\"text\": \"one\"}\n\n  \r\n{\"text\": \"\", \"x\": 1}\r\n{\"x\": {\"text\": 3}, "
                                  "\"text\": \"d\\u00e9\\ud83d\\ude00\"}");
  const TokenizeProgress done = tokenize(options_of({input.string()}, folder / "out"), quiet);
  EXPECT_EQ(documents_of(folder / "out_text_document"), "one$||d\xc3\xa9\xf0\x9f\x98\x80$|");
  EXPECT_EQ(done.documents, 3U);
  EXPECT_EQ(done.tokens, 4U + 8U);
  const IndexedDataset file(folder / "out_text_document");
  EXPECT_EQ(file.type(), TokenType::kUInt16);
  EXPECT_EQ(file.sequences(), 2);
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) names.push_back(entry.path().filename());
  EXPECT_EQ(names.size(), 3U) << "nothing but the input and the data set stays";
}

TEST(Tokenize, CompressionThreadsAndKeysChangeNothing) {
  const TemporaryFolder folder;
  const std::string text = many_lines(20000);
  tokenize(options_of({folder.write("a.jsonl", text).string()}, folder / "plain"), quiet);
  const std::string idx = read_file(folder / "plain_text_document.idx"),
                    bin = read_file(folder / "plain_text_document.bin");
  const std::size_t half = text.find('\n', text.size() / 2) + 1;
  folder.write("b.gz", gzip(text.substr(0, half)) + gzip(text.substr(half)));  // two members
  folder.write("c.zst", zstd(text.substr(0, half)) + zstd(text.substr(half)));
  for (const char* name : {"b.gz", "c.zst"}) {
    TokenizeOptions options = options_of({(folder / name).string()}, folder / name);
    options.threads = 5;
    tokenize(options, quiet);
    EXPECT_EQ(read_file(folder / (std::string(name) + "_text_document.idx")), idx);
    EXPECT_EQ(read_file(folder / (std::string(name) + "_text_document.bin")), bin);
  }
}

TEST(Tokenize, SeveralKeys) {
  const TemporaryFolder folder;
  TokenizeOptions options =
      options_of({folder.write("a.jsonl", "{\"q\": \"a\", \"r\": \"b\"}\n{\"r\": \"d\", \"q\": \"c\"}\n").string()},
                 folder / "out");
  options.keys = {"q", "r"};
  tokenize(options, quiet);
  EXPECT_EQ(documents_of(folder / "out_q_document"), "a$|c$|");
  EXPECT_EQ(documents_of(folder / "out_r_document"), "b$|d$|");
}

TEST(Tokenize, GoesOnAfterAStop) {
  const TemporaryFolder folder;
  const std::string text = many_lines(30000);
  const std::string first = folder.write("a.jsonl", text).string(), second = folder.write("b.gz", gzip(text)).string();
  tokenize(options_of({first, second}, folder / "whole"), quiet);
  TokenizeOptions options = options_of({first, second}, folder / "stopped");
  options.threads = 2;
  options.journal_seconds = 0.0;  // after every batch
  // The writing side fails where it next reports; what it wrote since the last record is dropped on the next call.
  int stops = 0;
  TokenizeProgress done;
  for (;; ++stops) {
    ASSERT_LT(stops, 100);
    int batches = 0;
    const std::uint64_t limit = 1500000ULL * static_cast<std::uint64_t>(stops + 1);
    options.on_batch = [&](const TokenizeProgress& progress) {
      if (progress.tokens > limit && ++batches > 0) throw std::runtime_error("stopped");
    };
    try {
      done = tokenize(options, quiet);
      break;
    } catch (const std::runtime_error& error) {
      ASSERT_STREQ(error.what(), "stopped");
      EXPECT_FALSE(std::filesystem::exists(folder / "stopped_text_document.idx"));
    }
  }
  EXPECT_GT(stops, 3);
  EXPECT_GT(done.resumed_bytes, 0U);
  EXPECT_EQ(read_file(folder / "stopped_text_document.idx"), read_file(folder / "whole_text_document.idx"));
  EXPECT_EQ(read_file(folder / "stopped_text_document.bin"), read_file(folder / "whole_text_document.bin"));
}

TEST(Tokenize, BadInputIsExplained) {
  const TemporaryFolder folder;
  const auto fails = [&](const std::string& text) {
    TokenizeOptions options = options_of({folder.write("a.jsonl", text).string()}, folder / "out");
    options.force = true;
    return message_of([&] { tokenize(options, quiet); });
  };
  EXPECT_THAT(fails("{\"text\": \"a\"}\n{\"text\": \"b\"\n"), HasSubstr("a.jsonl:2: not valid JSON"));
  EXPECT_THAT(fails("{\"txt\": \"a\"}\n"), HasSubstr("a.jsonl:1: no key \"text\""));
  EXPECT_THAT(fails("{\"text\": 3}\n"), HasSubstr("\"text\" is not a string"));
  EXPECT_THAT(fails("[1]\n"), HasSubstr("expected a JSON object"));
  EXPECT_THAT(fails("{\"text\": \"\xff\"}\n"), HasSubstr("a.jsonl:1: not valid JSON"));
  EXPECT_THAT(fails(std::string("{\"text\": \"\0\"}\n", 13)), HasSubstr("a.jsonl:1:"));
  EXPECT_EQ(fails("{\"n\": 123456789012345678901234567890, \"text\": \"a\"}\n"), "no error");
  EXPECT_THAT(fails(gzip(many_lines(2000)).substr(0, 500)), HasSubstr("truncated"));
  EXPECT_THAT(fails(std::string("\x1f\x8b\x08garbagegarbage")), HasSubstr("damaged"));
  EXPECT_EQ(fails(""), "no error");
  TokenizeOptions options =
      options_of({folder.write("a.jsonl", "{\"text\": \"a\"}\nx\n{}\n{\"text\": \"b\"}\n").string()}, folder / "skip");
  options.skip_invalid = true;
  EXPECT_EQ(tokenize(options, quiet).skipped, 2U);
  EXPECT_EQ(documents_of(folder / "skip_text_document"), "a$|b$|");
  EXPECT_THAT(message_of([&] { tokenize(options, quiet); }), HasSubstr("exists already"));
  EXPECT_THAT(message_of([&] { tokenize(options_of({(folder / "no").string()}, folder / "x"), quiet); }),
              HasSubstr("no: cannot read"));
}

TEST(Maintain, MergeKeepsDocumentsAndWidensTypes) {
  const TemporaryFolder folder;
  const auto write = [&](const char* name, TokenType type, std::int32_t base) {
    IndexedWriter writer(folder / name, type);
    writer.end_document();  // one without sequences
    writer.add(std::vector<std::int32_t>{base, base + 1});
    writer.add(std::vector<std::int32_t>{base + 2});
    writer.end_document();
    writer.finish();
  };
  write("a", TokenType::kUInt16, 65);
  write("b", TokenType::kUInt16, 75);
  write("c", TokenType::kInt32, 85);
  const auto none = [](double) {};
  merge_datasets({folder / "a", folder / "b.idx"}, folder / "ab", false, none);
  EXPECT_EQ(documents_of(folder / "ab"), "|ABC||KLM|");
  EXPECT_EQ(IndexedDataset(folder / "ab").type(), TokenType::kUInt16);
  EXPECT_EQ(IndexedDataset(folder / "ab").sequences(), 4);
  merge_datasets({folder / "a", folder / "c"}, folder / "ac", false, none);
  EXPECT_EQ(documents_of(folder / "ac"), "|ABC||UVW|");
  EXPECT_EQ(IndexedDataset(folder / "ac").type(), TokenType::kInt32);
  EXPECT_THAT(message_of([&] { merge_datasets({folder / "a"}, folder / "ab", false, none); }),
              HasSubstr("exists already"));
  EXPECT_THAT(message_of([&] {
                merge_datasets({folder / "a", folder / "b"}, folder / "a", true, none);
              }),
              HasSubstr("an input and the output"));
}

TEST(Maintain, VerifyFindsWhatIsOdd) {
  const TemporaryFolder folder;
  IndexedWriter writer(folder / "x", TokenType::kUInt16);
  writer.add(std::vector<std::int32_t>{1, 2, 256});
  writer.end_document();
  writer.add(std::vector<std::int32_t>{3, 999});
  writer.end_document();
  writer.finish();
  const auto none = [](double) {};
  EXPECT_THAT(verify_dataset(IndexedDataset(folder / "x"), {}, none), IsEmpty());
  const auto findings = verify_dataset(IndexedDataset(folder / "x"), {257, 256}, none);
  EXPECT_THAT(findings, ElementsAre(HasSubstr("1 ids are outside the vocabulary of 257, the first in document 1"),
                                    HasSubstr("1 documents do not end")));
  std::filesystem::resize_file(folder / "x.bin", 12);
  EXPECT_THAT(verify_dataset(IndexedDataset(folder / "x"), {}, none),
              ElementsAre(HasSubstr("12 bytes and its sequences take 10")));
  const DatasetSummary summary = summarise(IndexedDataset(folder / "x"));
  EXPECT_EQ(summary.longest, 3);
  EXPECT_EQ(summary.histogram[2], 2);
}

}  // namespace
}  // namespace railyard::data
