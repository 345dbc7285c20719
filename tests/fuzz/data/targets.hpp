// The readers of data sets and tokenizers as targets for damaged files: whatever comes, they answer or refuse with an
// Error, and never crash.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/base/json.hpp"
#include "runtime/data/gpt_dataset.hpp"
#include "runtime/data/indexed_dataset.hpp"
#include "runtime/data/indexed_writer.hpp"
#include "runtime/data/jsonl.hpp"
#include "runtime/data/npy.hpp"
#include "runtime/data/tokenize.hpp"
#include "runtime/data/tokenizer/tokenizer.hpp"

namespace railyard::data::fuzz {

namespace fs = std::filesystem;
struct Target {
  std::string seed;  // a valid file
  std::function<void(const fs::path& folder, const std::string& bytes)> read;
};

inline void put(const fs::path& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

inline Target idx_target(const fs::path& folder) {
  IndexedWriter writer(folder / "x", TokenType::kUInt16);
  for (int d = 0; d < 6; ++d) {
    writer.add(std::vector<std::int32_t>(static_cast<std::size_t>(3 + 5 * d), d));
    writer.end_document();
  }
  writer.finish();
  return {read_file(folder / "x.idx"), [](const fs::path& at, const std::string& bytes) {
            put(at / "x.idx", bytes);
            const auto file = std::make_shared<const IndexedDataset>(at / "x");
            GptIndexRequest request;
            request.last = file->sequences();
            request.seq_length = 4;
            request.samples = 40;
            const GptDataset dataset(file, request, cached_gpt_index(*file, request, {}), {});
            std::vector<std::int32_t> tokens(5);
            for (std::int64_t n = 0; n < dataset.size(); ++n) dataset.window(n, tokens);
          }};
}

inline void use_tokenizer(const TokenizerSpec& spec) {
  const auto tokenizer = open_tokenizer(spec);
  std::vector<std::int32_t> ids;
  std::string text;
  try {
    tokenizer->encode("Hello  w\xc3\xb6rld 123\n\n<|end|>\xff \xe2\x96\x81", ids, SpecialTokens::kRecognised);
  } catch (const UsageError&) {  // a vocabulary without all bytes
  }
  tokenizer->decode(ids, text);
}

inline Target tokenizer_target(const fs::path&) {
  Json vocab = Json::object();
  int id = 0;
  for (char c = '!'; c < 127; ++c) vocab[std::string(1, c)] = id++;
  vocab["\xc4\xa0"] = id++;
  vocab["he"] = id++;
  vocab["ll"] = id++;
  const Json json{
      {"added_tokens", {{{"id", 200}, {"content", "<|end|>"}, {"special", true}, {"lstrip", true}}}},
      {"normalizer",
       {{"type", "Sequence"},
        {"normalizers", {{{"type", "NFC"}}, {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", " "}}}}}},
      {"pre_tokenizer",
       {{"type", "Sequence"},
        {"pretokenizers",
         {{{"type", "Split"},
           {"pattern", {{"Regex", "\\p{N}{1,3}|\\s+(?!\\S)"}}},
           {"behavior", "MergedWithNext"},
           {"invert", false}},
          {{"type", "ByteLevel"}, {"add_prefix_space", false}}}}}},
      {"decoder", {{"type", "ByteLevel"}}},
      {"model",
       {{"type", "BPE"},
        {"ignore_merges", true},
        {"byte_fallback", false},
        {"vocab", vocab},
        {"merges", {"h e", "l l"}}}}};
  return {json.dump(), [](const fs::path& at, const std::string& bytes) {
            put(at / "tokenizer.json", bytes);
            use_tokenizer({"huggingface", (at / "tokenizer.json").string()});
          }};
}

inline Target gpt2_target(const fs::path& folder) {
  put(folder / "vocab.json", "{\"h\": 0, \"e\": 1, \"l\": 2, \"he\": 3, \"ll\": 4, \"hell\": 5}");
  return {"#version: 0.2\nh e\nl l\nhe ll\n", [](const fs::path& at, const std::string& bytes) {
            put(at / "merges.txt", bytes);
            use_tokenizer({"gpt2", at.string()});
          }};
}

inline Target tiktoken_target(const fs::path&) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  Json vocab = Json::array();
  for (std::size_t b = 0; b < 256; ++b)
    vocab.push_back({{"rank", b}, {"token_bytes", std::string{kDigits[b >> 2], kDigits[(b & 3) << 4], '=', '='}}});
  const Json json{
      {"config", {{"pattern", "\\p{L}+|."}, {"default_vocab_size", 260}, {"default_num_special_tokens", 4}}},
      {"vocab", vocab}};
  return {json.dump(), [](const fs::path& at, const std::string& bytes) {
            put(at / "tekken.json", bytes);
            use_tokenizer({"tiktoken", (at / "tekken.json").string()});
          }};
}

inline Target npy_target(const fs::path& folder) {
  write_npy(folder / "a.npy", IntArray(std::vector<std::int32_t>{1, 2, 3, 4, 5, 6}), 2);
  return {read_file(folder / "a.npy"), [](const fs::path& at, const std::string& bytes) {
            put(at / "a.npy", bytes);
            const IntArray array = read_npy(at / "a.npy");
            std::int64_t sum = 0;
            for (std::size_t i = 0; i < array.size(); ++i) sum ^= array[i];
            if (sum == 0x7fffffffffffffff) std::abort();  // keeps the loop
          }};
}

inline Target jsonl_target(const fs::path&) {
  return {
      "{\"text\": \"one \\u00e9\\ud83d\\ude00\", \"n\": 12345678901234567890123}\n{\"a\": [1, {\"text\": 2}], "
      "\"text\": \"two\"}\n\n{\"text\": \"\"}\n",
      [](const fs::path& at, const std::string& bytes) {
        put(at / "a.jsonl", bytes);
        TokenizeOptions options;
        options.inputs = {(at / "a.jsonl").string()};
        options.output = (at / "out").string();
        options.tokenizer = {"bytes", ""};
        options.skip_invalid = bytes.size() % 2 == 0;
        options.append_eod = options.force = true;
        tokenize(options, [](const TokenizeProgress&) {});
      }};
}

// By name.
inline std::map<std::string, std::function<Target(const fs::path&)>> all_targets() {
  return {{"idx", idx_target},   {"npy", npy_target},           {"tokenizer", tokenizer_target},
          {"gpt2", gpt2_target}, {"tiktoken", tiktoken_target}, {"jsonl", jsonl_target}};
}

}  // namespace railyard::data::fuzz
