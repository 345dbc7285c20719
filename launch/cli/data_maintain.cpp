// railyard data inspect / verify / merge.
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "launch/cli/data.hpp"
#include "runtime/base/error.hpp"
#include "runtime/base/json.hpp"
#include "runtime/data/maintain.hpp"
#include "runtime/data/tokenizer/tokenizer.hpp"

namespace railyard::launch {
namespace {

struct Options {
  std::vector<std::string> prefixes;
  std::string tokenizer, output;
  std::int64_t samples = 3, vocab_size = 0;
  bool json = false, force = false;
};

std::unique_ptr<data::Tokenizer> tokenizer_of(const Options& options) {
  return options.tokenizer.empty() ? nullptr : data::open_tokenizer(data::parse_tokenizer_spec(options.tokenizer));
}

// A share of work as a percentage on a terminal; nothing anywhere else.
data::ShareDone percentage(const std::string& doing) {
  if (::isatty(STDERR_FILENO) != 1) return [](double) {};
  return [doing](double share) {
    fmt::print(stderr, "\r{} {:3.0f} %\033[K", doing, 100 * share);
    std::fflush(stderr);
  };
}

void end_percentage() {
  if (::isatty(STDERR_FILENO) == 1) fmt::print(stderr, "\r\033[K");
}

// The first tokens of a sequence, as text on one line where there is a tokenizer.
std::string sample_of(const data::IndexedDataset& file, const data::Tokenizer* tokenizer, std::int64_t sequence) {
  constexpr std::int64_t kShown = 48;
  std::vector<std::int32_t> ids(static_cast<std::size_t>(std::min<std::int64_t>(kShown, file.length(sequence))));
  file.read(sequence, 0, ids);
  if (tokenizer == nullptr) return fmt::format("{}", fmt::join(ids, " "));
  std::string text;
  try {
    tokenizer->decode(ids, text);
  } catch (const UsageError& error) {
    return fmt::format("({})", error.what());
  }
  std::string shown = Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
  return shown.substr(1, shown.size() - 2);
}

int inspect(const Options& options) {
  const auto tokenizer = tokenizer_of(options);
  Json list = Json::array();
  for (const std::string& prefix : options.prefixes) {
    const data::IndexedDataset file(prefix);
    const data::DatasetSummary summary = data::summarise(file);
    Json histogram = Json::array();
    for (std::size_t k = 0; k < summary.histogram.size(); ++k)
      if (summary.histogram[k] > 0)
        histogram.push_back({{"from", k == 0 ? 0 : std::int64_t{1} << (k - 1)},
                             {"to", (std::int64_t{1} << k) - 1},
                             {"sequences", summary.histogram[k]}});
    Json samples = Json::array();
    if (!data::token_is_float(file.type()) && file.sequences() > 0)
      for (std::int64_t i = 0; i < options.samples; ++i) {
        const std::int64_t sequence = file.sequences() * i / options.samples;
        if (i > 0 && sequence == file.sequences() * (i - 1) / options.samples) continue;
        samples.push_back({{"sequence", sequence}, {"text", sample_of(file, tokenizer.get(), sequence)}});
      }
    list.push_back({{"prefix", file.prefix().string()},
                    {"type", data::token_type_name(file.type())},
                    {"documents", file.documents()},
                    {"sequences", file.sequences()},
                    {"tokens", file.tokens()},
                    {"bytes", file.bin().size()},
                    {"multimodal", file.multimodal()},
                    {"empty_documents", summary.empty_documents},
                    {"shortest", summary.shortest},
                    {"longest", summary.longest},
                    {"mean", summary.mean},
                    {"histogram", std::move(histogram)},
                    {"samples", std::move(samples)}});
  }
  if (options.json) {
    fmt::print("{}\n", list.dump(2));
    return kExitDone;
  }
  for (const Json& item : list) {
    fmt::print("{}\n", item.at("prefix").get<std::string>());
    fmt::print("  {} documents, {} sequences, {} tokens of {}, {} bytes{}\n", item.at("documents").get<std::int64_t>(),
               item.at("sequences").get<std::int64_t>(), item.at("tokens").get<std::int64_t>(),
               item.at("type").get<std::string>(), item.at("bytes").get<std::int64_t>(),
               item.at("multimodal").get<bool>() ? ", with modes" : "");
    fmt::print("  length: {} to {} tokens, mean {:.1f}\n", item.at("shortest").get<std::int64_t>(),
               item.at("longest").get<std::int64_t>(), item.at("mean").get<double>());
    std::int64_t most = 1;
    for (const Json& bar : item.at("histogram")) most = std::max(most, bar.at("sequences").get<std::int64_t>());
    for (const Json& bar : item.at("histogram")) {
      const auto count = bar.at("sequences").get<std::int64_t>();
      fmt::print("  {:>10} - {:<10} {:>12} {}\n", bar.at("from").get<std::int64_t>(), bar.at("to").get<std::int64_t>(),
                 count, std::string(static_cast<std::size_t>(1 + 39 * count / most), '#'));
    }
    for (const Json& sample : item.at("samples"))
      fmt::print("  sequence {}: {}\n", sample.at("sequence").get<std::int64_t>(),
                 sample.at("text").get<std::string>());
  }
  return kExitDone;
}

int verify(const Options& options) {
  const auto tokenizer = tokenizer_of(options);
  data::VerifyOptions rules;
  rules.vocab_size = options.vocab_size > 0 ? options.vocab_size : tokenizer ? tokenizer->vocab_size() : 0;
  if (tokenizer) rules.eod = tokenizer->eod();
  bool clean = true;
  for (const std::string& prefix : options.prefixes) {
    const data::IndexedDataset file(prefix);
    const auto findings = data::verify_dataset(file, rules, percentage("verifying " + prefix));
    end_percentage();
    for (const std::string& finding : findings) fmt::print("{}: {}\n", file.prefix().string(), finding);
    if (findings.empty())
      fmt::print("{}: clean, {} documents, {} tokens\n", file.prefix().string(), file.documents(), file.tokens());
    clean = clean && findings.empty();
  }
  return clean ? kExitDone : kExitFailed;
}

int merge(const Options& options) {
  const std::vector<std::filesystem::path> inputs(options.prefixes.begin(), options.prefixes.end());
  data::merge_datasets(inputs, options.output, options.force, percentage("merging"));
  end_percentage();
  const data::IndexedDataset file(options.output);
  fmt::print("{}.bin: {} documents, {} tokens\n", file.prefix().string(), file.documents(), file.tokens());
  return kExitDone;
}

constexpr const char* kTokenizerHelp = "TYPE:PATH with char, bytes, gpt2, huggingface, sentencepiece or tiktoken";

}  // namespace

std::function<int()> define_data_inspect(CLI::App& data) {
  CLI::App* command = data.add_subcommand("inspect", "Counts, lengths and samples of data sets.");
  command->footer("Example: railyard data inspect data/web_text_document --tokenizer gpt2:/models/gpt2");
  auto options = std::make_shared<Options>();
  command->add_option("PREFIX", options->prefixes, "data sets, without .bin or .idx")->required();
  command->add_option("--tokenizer", options->tokenizer, kTokenizerHelp);
  command->add_option("--samples", options->samples, "samples to show [3]")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1000}));
  command->add_flag("--json", options->json, "print JSON");
  return [options] { return inspect(*options); };
}

std::function<int()> define_data_verify(CLI::App& data) {
  CLI::App* command =
      data.add_subcommand("verify", "Read data sets in full; exit 0 clean, 1 with findings, 2 unusable.");
  command->footer("Example: railyard data verify data/*.idx --tokenizer gpt2:/models/gpt2");
  auto options = std::make_shared<Options>();
  command->add_option("PREFIX", options->prefixes, "data sets, without .bin or .idx")->required();
  command->add_option("--tokenizer", options->tokenizer, kTokenizerHelp);
  command->add_option("--vocab-size", options->vocab_size, "ids must be below it")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{INT32_MAX}));
  return [options] { return verify(*options); };
}

std::function<int()> define_data_merge(CLI::App& data) {
  CLI::App* command = data.add_subcommand("merge", "Append data sets to one another in a new one.");
  command->footer("Example: railyard data merge part-*.idx --output data/all");
  auto options = std::make_shared<Options>();
  command->add_option("PREFIX", options->prefixes, "data sets, in order, without .bin or .idx")->required();
  command->add_option("-o,--output", options->output, "the new data set, without .bin or .idx")->required();
  command->add_flag("--force", options->force, "replace the output where it exists");
  return [options] { return merge(*options); };
}

}  // namespace railyard::launch
