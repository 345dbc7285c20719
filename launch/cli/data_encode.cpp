// railyard data encode / decode: standard input to a JSON list of ids, and back.
#include <cstdint>
#include <memory>
#include <string>

#include "launch/cli/data.hpp"
#include "launch/cli/streams.hpp"
#include "runtime/base/error.hpp"
#include "runtime/base/json.hpp"
#include "runtime/data/tokenizer/tokenizer.hpp"

namespace railyard::launch {
namespace {

struct Options {
  std::string tokenizer;
  bool special = false;
};

int encode(const Options& options) {
  const auto tokenizer = data::open_tokenizer(data::parse_tokenizer_spec(options.tokenizer));
  std::vector<std::int32_t> ids;
  tokenizer->encode(read_standard_input(), ids,
                    options.special ? data::SpecialTokens::kRecognised : data::SpecialTokens::kPlainText);
  std::string out = "[";
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (i > 0) out += ", ";
    out += std::to_string(ids[i]);
  }
  write_standard_output(out + "]\n");
  return kExitDone;
}

int decode(const Options& options) {
  const auto tokenizer = data::open_tokenizer(data::parse_tokenizer_spec(options.tokenizer));
  const Json list = parse_json(read_standard_input(), "standard input");
  if (!list.is_array()) throw UsageError("standard input: expected a JSON list of ids");
  std::vector<std::int32_t> ids;
  for (const Json& item : list) {
    if (!item.is_number_integer() || item.get<std::int64_t>() < 0 || item.get<std::int64_t>() > INT32_MAX)
      throw UsageError("standard input: element {} of the list is not a token id", ids.size());
    ids.push_back(item.get<std::int32_t>());
  }
  std::string text;
  tokenizer->decode(ids, text);
  write_standard_output(text);
  return kExitDone;
}

CLI::Option* add_tokenizer(CLI::App& command, Options& options) {
  return command
      .add_option("--tokenizer", options.tokenizer,
                  "TYPE:PATH with char, bytes, gpt2, huggingface, sentencepiece or tiktoken")
      ->required();
}

}  // namespace

std::function<int()> define_data_encode(CLI::App& data) {
  CLI::App* command = data.add_subcommand("encode", "Standard input to one JSON list of token ids.");
  command->footer(
      "Example: printf 'Hello world' | railyard data encode --tokenizer huggingface:/models/llama3/tokenizer.json");
  auto options = std::make_shared<Options>();
  add_tokenizer(*command, *options);
  command->add_flag("--special", options->special,
                    "read the text of special tokens, such as <|endoftext|>, as these tokens");
  return [options] { return encode(*options); };
}

std::function<int()> define_data_decode(CLI::App& data) {
  CLI::App* command = data.add_subcommand("decode", "A JSON list of token ids on standard input to text.");
  command->footer("Example: echo '[15496, 995]' | railyard data decode --tokenizer gpt2:/models/gpt2");
  auto options = std::make_shared<Options>();
  add_tokenizer(*command, *options);
  return [options] { return decode(*options); };
}

}  // namespace railyard::launch
