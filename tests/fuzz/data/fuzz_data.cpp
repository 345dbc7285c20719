// Feeds damaged files to the readers of data sets and tokenizers: whatever comes, they answer or refuse, and never
// crash.
//   fuzz_data TARGET SECONDS [SEED] : idx, npy, tokenizer, gpt2, tiktoken, jsonl. Build with the preset `asan` for a
//   long run.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <random>
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

namespace {

namespace fs = std::filesystem;
using namespace railyard;
using namespace railyard::data;

struct Target {
  std::string seed;  // a valid file
  std::function<void(const fs::path& folder, const std::string& bytes)> read;
};

void put(const fs::path& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

Target idx_target(const fs::path& folder) {
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

void use_tokenizer(const TokenizerSpec& spec) {
  const auto tokenizer = open_tokenizer(spec);
  std::vector<std::int32_t> ids;
  std::string text;
  try {
    tokenizer->encode("Hello  w\xc3\xb6rld 123\n\n<|end|>\xff \xe2\x96\x81", ids, SpecialTokens::kRecognised);
  } catch (const UsageError&) {  // a vocabulary without all bytes
  }
  tokenizer->decode(ids, text);
}

Target tokenizer_target(const fs::path&) {
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

Target gpt2_target(const fs::path& folder) {
  put(folder / "vocab.json", "{\"h\": 0, \"e\": 1, \"l\": 2, \"he\": 3, \"ll\": 4, \"hell\": 5}");
  return {"#version: 0.2\nh e\nl l\nhe ll\n", [](const fs::path& at, const std::string& bytes) {
            put(at / "merges.txt", bytes);
            use_tokenizer({"gpt2", at.string()});
          }};
}

Target tiktoken_target(const fs::path&) {
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

Target npy_target(const fs::path& folder) {
  write_npy(folder / "a.npy", IntArray(std::vector<std::int32_t>{1, 2, 3, 4, 5, 6}), 2);
  return {read_file(folder / "a.npy"), [](const fs::path& at, const std::string& bytes) {
            put(at / "a.npy", bytes);
            const IntArray array = read_npy(at / "a.npy");
            std::int64_t sum = 0;
            for (std::size_t i = 0; i < array.size(); ++i) sum ^= array[i];
            if (sum == 0x7fffffffffffffff) std::abort();  // keeps the loop
          }};
}

Target jsonl_target(const fs::path&) {
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

// A few bytes changed, cut out, doubled or set to values at the edges.
std::string mutate(std::string bytes, std::mt19937_64& random) {
  for (std::uint64_t changes = 1 + random() % 4; changes > 0 && !bytes.empty(); --changes) {
    const std::size_t at = random() % bytes.size();
    const std::size_t length = std::min<std::size_t>(1 + random() % 16, bytes.size() - at);
    switch (random() % 6) {
      case 0:
        bytes[at] = static_cast<char>(random());
        break;
      case 1:
        bytes[at] = static_cast<char>(static_cast<unsigned char>(bytes[at]) ^ (1U << (random() % 8)));
        break;
      case 2:
        bytes.erase(at, length);
        break;
      case 3:
        bytes.insert(at, bytes.substr(random() % bytes.size(), length));
        break;
      case 4:
        bytes.resize(at);
        break;
      default:
        for (std::size_t i = at; i < at + length; ++i) bytes[i] = random() % 2 == 0 ? '\xff' : '\0';
    }
  }
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, std::function<Target(const fs::path&)>> targets{
      {"idx", idx_target},   {"npy", npy_target},           {"tokenizer", tokenizer_target},
      {"gpt2", gpt2_target}, {"tiktoken", tiktoken_target}, {"jsonl", jsonl_target}};
  if (argc < 3 || !targets.contains(argv[1])) {
    std::fprintf(stderr, "usage: fuzz_data idx|npy|tokenizer|gpt2|tiktoken|jsonl SECONDS [SEED]\n");
    return kExitUsage;
  }
  std::string pattern = (fs::temp_directory_path() / "railyard-fuzz-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) return kExitFailed;
  const fs::path folder = pattern;
  std::mt19937_64 random(argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 1);
  const Target target = targets.at(argv[1])(folder);
  std::uint64_t refused = 0, taken = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(std::atof(argv[2]));
  std::string bytes = target.seed;
  while (std::chrono::steady_clock::now() < end) {
    try {
      target.read(folder, bytes);
      ++taken;
    } catch (const Error&) {
      ++refused;
    }
    bytes = mutate(target.seed, random);
  }
  fs::remove_all(folder);
  std::printf("%s: %llu files read, %llu refused\n", argv[1], static_cast<unsigned long long>(taken),
              static_cast<unsigned long long>(refused));
  return taken > 0 && refused > 0 ? kExitDone : kExitFailed;
}
