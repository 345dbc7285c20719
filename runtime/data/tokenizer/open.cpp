// Chooses the tokenizer for a type and a path.
#include <array>
#include <string>

#include "runtime/base/error.hpp"
#include "runtime/data/mapped_file.hpp"
#include "runtime/data/tokenizer/bpe_tokenizer.hpp"
#include "runtime/data/tokenizer/char_tokenizer.hpp"
#include "runtime/data/tokenizer/tokenizer.hpp"

namespace railyard::data {
namespace {

// A folder stands for the first of the names that is in it.
std::filesystem::path file_in(const std::filesystem::path& path, std::initializer_list<const char*> names) {
  if (!std::filesystem::is_directory(path)) return path;
  for (const char* name : names)
    if (std::filesystem::exists(path / name)) return path / name;
  throw UsageError("{}: there is no {} in this folder", path.string(), *names.begin());
}

}  // namespace

std::unique_ptr<Tokenizer> open_tokenizer(const TokenizerSpec& spec) {
  if (spec.type == "bytes") return std::make_unique<ByteTokenizer>();
  if (spec.path.empty()) throw UsageError("tokenizer {}: needs a path", spec.type);
  if (spec.type == "char") return std::make_unique<CharTokenizer>(MappedFile(spec.path).text(), spec.path);
  if (spec.type == "gpt2") return open_gpt2(spec.path);
  if (spec.type == "huggingface") return open_huggingface(file_in(spec.path, {"tokenizer.json"}));
  if (spec.type == "sentencepiece") return open_sentencepiece(file_in(spec.path, {"tokenizer.model"}));
  if (spec.type == "tiktoken") return open_tiktoken(file_in(spec.path, {"tokenizer.model", "tekken.json"}));
  throw UsageError("tokenizer type \"{}\": unknown; expected char, bytes, gpt2, huggingface, sentencepiece or tiktoken",
                   spec.type);
}

TokenizerSpec parse_tokenizer_spec(const std::string& text) {
  const std::size_t colon = text.find(':');
  TokenizerSpec spec{text.substr(0, colon), colon == std::string::npos ? "" : text.substr(colon + 1)};
  constexpr std::array kTypes{"char", "bytes", "gpt2", "huggingface", "sentencepiece", "tiktoken"};
  for (const char* type : kTypes)
    if (spec.type == type) return spec;
  throw UsageError(
      "--tokenizer {}: unknown type \"{}\"; expected TYPE:PATH with char, bytes, gpt2, huggingface, sentencepiece or "
      "tiktoken",
      text, spec.type);
}

}  // namespace railyard::data
