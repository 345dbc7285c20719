// tiktoken vocabularies: a file of "BASE64 RANK" lines, whose pattern and special tokens are known by its size; and
// Mistral's tekken.json, which holds both.
#include <charconv>
#include <string>
#include <vector>

#include "runtime/data/digest.hpp"
#include "runtime/data/mapped_file.hpp"
#include "runtime/data/tokenizer/base64.hpp"
#include "runtime/data/tokenizer/bpe_tokenizer.hpp"
#include "runtime/data/tokenizer/json_file.hpp"

namespace railyard::data {
namespace {

constexpr std::int64_t kMostIds = 1 << 24;

constexpr const char* kCl100kPattern =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++\z|\s*[\r\n]|\s+(?!\S)|\s)";
constexpr const char* kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwenPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kO200kPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

struct Special {
  const char* text;
  std::int32_t id;
};

// What a published file of ranks does not say itself.
struct Family {
  const char* name;
  std::size_t ranks;
  const char* pattern;
  std::int32_t vocab_size;  // special tokens without a text here are unnamed
  std::int32_t eod;
  std::vector<Special> specials;
};

const std::vector<Family>& families() {
  static const std::vector<Family> list{
      {"gpt2 (r50k_base)", 50256, kGpt2Pattern, 50257, 50256, {{"<|endoftext|>", 50256}}},
      {"whisper multilingual", 50257, kGpt2Pattern, 50258, 50257, {{"<|endoftext|>", 50257}}},
      {"p50k_base", 50280, kGpt2Pattern, 50281, 50256, {{"<|endoftext|>", 50256}}},
      {"cl100k_base",
       100256,
       kCl100kPattern,
       100277,
       100257,
       {{"<|endoftext|>", 100257},
        {"<|fim_prefix|>", 100258},
        {"<|fim_middle|>", 100259},
        {"<|fim_suffix|>", 100260},
        {"<|endofprompt|>", 100276}}},
      {"llama3",
       128000,
       kLlama3Pattern,
       128256,
       128001,
       {{"<|begin_of_text|>", 128000},
        {"<|end_of_text|>", 128001},
        {"<|start_header_id|>", 128006},
        {"<|end_header_id|>", 128007},
        {"<|eom_id|>", 128008},
        {"<|eot_id|>", 128009}}},
      {"qwen",
       151643,
       kQwenPattern,
       151851,
       151643,
       {{"<|endoftext|>", 151643}, {"<|im_start|>", 151644}, {"<|im_end|>", 151645}}},
      {"o200k_base", 199998, kO200kPattern, 200019, 199999, {{"<|endoftext|>", 199999}, {"<|endofprompt|>", 200018}}},
      {"llama4", 200000, kO200kPattern, 201136, 200001, {{"<|begin_of_text|>", 200000}, {"<|end_of_text|>", 200001}}},
  };
  return list;
}

void add_token(BpeRules& rules, std::int64_t id, std::string bytes) {
  const auto index = static_cast<std::size_t>(id);
  if (index >= rules.tables.tokens.size()) rules.tables.tokens.resize(index + 1);
  rules.set_decoded(static_cast<std::int32_t>(id), bytes);
  rules.tables.tokens[index] = std::move(bytes);
}

// tiktoken merges any two neighbours whose bytes together are a token, and that token's id is the rank: every split of
// every token is a merge.
void finish(BpeRules& rules, const char* pattern, const std::string& name) {
  BpeTables& tables = rules.tables;
  tables.finish();
  tables.whole_first = true;
  for (int b = 0; b < 256; ++b) {
    const char byte = static_cast<char>(b);
    tables.byte_ids[static_cast<std::size_t>(b)] = tables.ids.find(std::string_view(&byte, 1));
    if (tables.byte_ids[static_cast<std::size_t>(b)] < 0)
      throw UsageError("{}: no token for the byte 0x{:02x}", name, b);
  }
  tables.merges.reserve(2 * tables.tokens.size());
  for (std::size_t id = 0; id < tables.tokens.size(); ++id) {
    const std::string_view token = tables.tokens[id];
    for (std::size_t cut = 1; cut < token.size(); ++cut) {
      const std::int32_t left = tables.ids.find(token.substr(0, cut));
      if (left < 0) continue;
      const std::int32_t right = tables.ids.find(token.substr(cut));
      if (right >= 0) tables.merges.add(left, right, static_cast<std::uint32_t>(id), static_cast<std::int32_t>(id));
    }
  }
  rules.pre_tokenizer.add({std::make_unique<Regex>(pattern, name)});
}

void read_ranks(const std::filesystem::path& path, std::string_view text, BpeRules& rules) {
  const std::string name = path.string();
  std::size_t count = 0;
  for (std::size_t line = 1; !text.empty(); ++line) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view entry = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (entry.ends_with('\r')) entry.remove_suffix(1);
    if (entry.empty()) continue;
    const std::size_t space = entry.find(' ');
    const auto bytes = decode_base64(entry.substr(0, space));
    std::int64_t rank = -1;
    if (space != std::string_view::npos) std::from_chars(entry.data() + space + 1, entry.data() + entry.size(), rank);
    if (!bytes || space == 0 || rank < 0 || rank >= kMostIds)
      throw UsageError("{}:{}: expected \"BASE64 RANK\"", name, line);
    add_token(rules, rank, *bytes);  // Whisper's file has one without bytes
    ++count;
  }
  for (const Family& family : families()) {
    if (family.ranks != count) continue;
    for (const Special& special : family.specials) {
      rules.added.add({.text = special.text, .id = special.id, .special = true});
      rules.set_decoded(special.id, special.text);
    }
    for (std::int32_t id = 0; id < family.vocab_size; ++id)
      if (static_cast<std::size_t>(id) >= rules.known.size() || !rules.known[static_cast<std::size_t>(id)])
        rules.set_decoded(id, fmt::format("<|special_{}|>", id));
    rules.eod = family.eod;
    return finish(rules, family.pattern, name);
  }
  std::string known;
  for (const Family& family : families())
    known += fmt::format("{}{} ({})", known.empty() ? "" : ", ", family.ranks, family.name);
  throw UsageError(
      "{}: {} ranks: the pattern that goes with this vocabulary is not known; known are {}. Use its tokenizer.json "
      "with type \"huggingface\"",
      name, count, known);
}

// tekken.json: special tokens come first, then the ranks that are in use.
void read_tekken(const std::filesystem::path& path, BpeRules& rules) {
  const JsonFile file(path);
  file.checked("tekken.json", [&] {
    const auto config = file.root().at_key("config").value();
    const std::int64_t vocab = config.at_key("default_vocab_size").get_int64().value(),
                       special = config.at_key("default_num_special_tokens").get_int64().value();
    if (special < 0 || vocab <= special || vocab > kMostIds)
      throw UsageError("{}: config: {} tokens, {} of them special", file.name(), vocab, special);
    for (std::int32_t id = 0; id < special; ++id)
      rules.set_decoded(id, id == 0 ? "<unk>" : id == 1 ? "<s>" : id == 2 ? "</s>" : fmt::format("<SPECIAL_{}>", id));
    simdjson::dom::element list;
    if (json_member(file.root(), "special_tokens", list))
      for (const auto item : json_array(list)) {
        const std::int64_t id = item.at_key("rank").get_int64().value();
        if (id < 0 || id >= special) throw UsageError("{}: special_tokens: rank {}", file.name(), id);
        rules.set_decoded(static_cast<std::int32_t>(id), std::string(item.at_key("token_str").get_string().value()));
      }
    for (std::int32_t id = 0; id < special; ++id)
      rules.added.add({.text = rules.decoded[static_cast<std::size_t>(id)], .id = id, .special = true});
    rules.eod = 2;
    for (const auto item : json_array(file.root().at_key("vocab"))) {
      const std::int64_t rank = item.at_key("rank").get_int64().value();
      if (rank < 0) throw UsageError("{}: vocab: rank {}", file.name(), rank);
      if (rank >= vocab - special) continue;  // the file lists more ranks than its version uses
      const auto bytes = decode_base64(item.at_key("token_bytes").get_string().value());
      if (!bytes || bytes->empty())
        throw UsageError("{}: vocab: rank {}: token_bytes is not base64", file.name(), rank);
      add_token(rules, rank + special, *bytes);
    }
    finish(rules, std::string(config.at_key("pattern").get_string().value()).c_str(), file.name());
  });
}

}  // namespace

std::unique_ptr<Tokenizer> open_tiktoken(const std::filesystem::path& path) {
  const MappedFile file(path);
  const auto rules = std::make_shared<BpeRules>();
  if (file.text().starts_with('{'))
    read_tekken(path, *rules);
  else
    read_ranks(path, file.text(), *rules);
  rules->fingerprint = digest_of("tiktoken-1" + digest_of(file.text()));
  return std::make_unique<BpeTokenizer>(rules);
}

}  // namespace railyard::data
