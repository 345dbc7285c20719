// railyard data index: the sample order of a Megatron data set, as Megatron-Core would build it.
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "launch/cli/data.hpp"
#include "runtime/base/error.hpp"
#include "runtime/data/gpt_dataset.hpp"
#include "runtime/data/indexed_dataset.hpp"
#include "runtime/data/split.hpp"

namespace railyard::launch {
namespace {

struct Options {
  std::string prefix, split, which = "train";
  std::int64_t seq_length = 0;
  std::optional<std::int64_t> samples;
  std::uint64_t seed = 1234;
  bool json = false, keep_partial = false;
};

void append(std::string& out, const data::IntArray& array, std::size_t columns) {
  out += '[';
  for (std::size_t i = 0; i < array.size(); i += columns) {
    if (i > 0) out += ", ";
    if (columns == 1)
      out += std::to_string(array[i]);
    else
      out += fmt::format("[{}, {}]", array[i], array[i + 1]);
    if (out.size() > (1U << 20)) {
      std::fwrite(out.data(), 1, out.size(), stdout);
      out.clear();
    }
  }
  out += ']';
}

int run(const Options& options) {
  const data::IndexedDataset file(options.prefix);
  data::GptIndexRequest request;
  request.last = file.sequences();
  if (!options.split.empty()) {
    const auto bounds =
        data::split_bounds(data::parse_split(options.split), file.sequences(), data::SplitRounding::kHalfToEven);
    const std::size_t i = options.which == "train" ? 0 : options.which == "valid" ? 1 : 2;
    request.first = bounds[i];
    request.last = bounds[i + 1];
  }
  request.seq_length = options.seq_length;
  request.samples = options.samples;
  request.seed = static_cast<std::uint32_t>(options.seed);
  request.drop_last_partial = !options.keep_partial;
  const data::GptIndex index = data::cached_gpt_index(file, request, {});
  if (!options.json) {
    fmt::print("{}: sequences {} to {} of {}, {} epoch{}{}, {} samples of {} tokens\n", file.prefix().string(),
               request.first, request.last, file.sequences(), index.epochs, index.epochs == 1 ? "" : "s",
               index.separate_last_epoch ? " (the last one apart)" : "", index.shuffle.size(), options.seq_length);
    return kExitDone;
  }
  std::string out = "{\"document_index\": ";
  append(out, index.documents, 1);
  out += ", \"sample_index\": ";
  append(out, index.samples, 2);
  out += ", \"shuffle_index\": ";
  append(out, index.shuffle, 1);
  out += "}\n";
  std::fwrite(out.data(), 1, out.size(), stdout);
  if (std::fflush(stdout) != 0) throw RunError("standard output: cannot write");
  return kExitDone;
}

}  // namespace

std::function<int()> define_data_index(CLI::App& data) {
  CLI::App* command = data.add_subcommand("index", "Print the document, sample and shuffle index of PREFIX.bin/.idx.");
  command->footer(
      "Example: railyard data index web_text_document --seq-length 4096 --samples 100000 --split 969,30,1 --json");
  auto options = std::make_shared<Options>();
  command->add_option("PREFIX", options->prefix, "the data set, without .bin or .idx")->required();
  command->add_option("--seq-length", options->seq_length, "tokens of a sample")
      ->required()
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 31));
  command->add_option("--samples", options->samples, "samples needed; without it one epoch")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 40));
  command->add_option("--seed", options->seed, "seed of the shuffles [1234]")
      ->check(CLI::Range(std::uint64_t{0}, std::uint64_t{UINT32_MAX}));
  command->add_option("--split", options->split, "shares such as 969,30,1; without it all documents");
  command->add_option("--which", options->which, "the split to print [train]")
      ->check(CLI::IsMember({"train", "valid", "test"}));
  command->add_flag("--keep-partial", options->keep_partial,
                    "count a last sample that is short (Megatron's validation option)");
  command->add_flag("--json", options->json, "print the indices");
  return [options] { return run(*options); };
}

}  // namespace railyard::launch
