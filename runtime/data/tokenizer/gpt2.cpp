// GPT-2's vocabulary: vocab.json (token text to id) and merges.txt (one merge a line, in order).
#include <string>

#include "runtime/base/json.hpp"
#include "runtime/data/digest.hpp"
#include "runtime/data/mapped_file.hpp"
#include "runtime/data/tokenizer/bpe_tokenizer.hpp"
#include "runtime/data/tokenizer/json_file.hpp"

namespace railyard::data {
namespace {

constexpr std::int64_t kMostIds = 1 << 24;

// The first of the names that is in the folder.
std::filesystem::path choose(const std::filesystem::path& folder, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (std::filesystem::exists(folder / name)) return folder / name;
  return folder / *names.begin();
}

void read_vocab(const std::filesystem::path& path, BpeRules& rules) {
  const JsonFile file(path);
  file.checked("vocabulary", [&] {
    for (const auto [text, value] : json_object(file.root())) {
      const std::int64_t id = value.get_int64().value();
      if (id < 0 || id >= kMostIds) throw UsageError("{}: token \"{}\" has id {}", file.name(), text, id);
      const auto index = static_cast<std::size_t>(id);
      if (index >= rules.tables.tokens.size()) rules.tables.tokens.resize(index + 1);
      const auto bytes = bytes_of_byte_level(text);
      if (text == "<|endoftext|>") rules.eod = static_cast<std::int32_t>(id);
      if (text == "<|endoftext|>")
        rules.added.add({.text = std::string(text), .id = static_cast<std::int32_t>(id), .special = true});
      else if (bytes)
        rules.tables.tokens[index] = *bytes;
      rules.set_decoded(static_cast<std::int32_t>(id), bytes ? *bytes : std::string(text));
    }
  });
  if (rules.decoded.empty()) throw UsageError("{}: no tokens", file.name());
}

void read_merges(const std::filesystem::path& path, BpeTables& tables) {
  const MappedFile file(path);
  std::string_view text = file.text();
  std::uint32_t rank = 0;
  for (std::size_t line = 1; !text.empty(); ++line) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view merge = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (merge.ends_with('\r')) merge.remove_suffix(1);
    if (merge.empty() || (line == 1 && merge.starts_with("#version"))) continue;
    const std::size_t space = merge.find(' ');
    const auto left = bytes_of_byte_level(merge.substr(0, space));
    const auto right = space == std::string_view::npos ? std::nullopt : bytes_of_byte_level(merge.substr(space + 1));
    if (!left || !right) throw UsageError("{}:{}: not a merge of two tokens: \"{}\"", path.string(), line, merge);
    const std::int32_t a = tables.ids.find(*left), b = tables.ids.find(*right), both = tables.ids.find(*left + *right);
    if (a < 0 || b < 0 || both < 0)
      throw UsageError("{}:{}: the merge \"{}\" has a part or a result that is not in the vocabulary", path.string(),
                       line, merge);
    tables.merges.add(a, b, rank++, both);
  }
}

}  // namespace

std::unique_ptr<Tokenizer> open_gpt2(const std::filesystem::path& folder) {
  const auto vocab = choose(folder, {"vocab.json", "encoder.json"}),
             merges = choose(folder, {"merges.txt", "vocab.bpe"});
  const auto rules = std::make_shared<BpeRules>();
  read_vocab(vocab, *rules);
  BpeTables& tables = rules->tables;
  tables.finish();
  for (int b = 0; b < 256; ++b) {
    const char byte = static_cast<char>(b);
    tables.byte_ids[static_cast<std::size_t>(b)] = tables.ids.find(std::string_view(&byte, 1));
  }
  read_merges(merges, tables);
  rules->pre_tokenizer.add({std::make_unique<Regex>(kGpt2Pattern, "gpt2")});
  rules->fingerprint = digest_of("gpt2-1" + digest_of(MappedFile(vocab).text()) + digest_of(MappedFile(merges).text()));
  return std::make_unique<BpeTokenizer>(rules);
}

}  // namespace railyard::data
