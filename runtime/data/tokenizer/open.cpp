// Chooses the tokenizer for a type and a path.
#include <array>
#include <string>

#include "runtime/base/error.hpp"
#include "runtime/data/mapped_file.hpp"
#include "runtime/data/tokenizer/char_tokenizer.hpp"
#include "runtime/data/tokenizer/tokenizer.hpp"

namespace railyard::data {

std::unique_ptr<Tokenizer> open_tokenizer(const TokenizerSpec& spec) {
  if (spec.type == "bytes") return std::make_unique<ByteTokenizer>();
  if (spec.path.empty()) throw UsageError("tokenizer {}: needs a path", spec.type);
  if (spec.type == "char") return std::make_unique<CharTokenizer>(MappedFile(spec.path).text(), spec.path);
  throw UsageError("tokenizer type \"{}\": not built yet", spec.type);
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
