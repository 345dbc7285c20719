// railyard data tokenize: JSON lines to Megatron data sets, with a progress bar.
#include <sched.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>

#include "launch/cli/data.hpp"
#include "runtime/base/error.hpp"
#include "runtime/data/tokenize.hpp"

namespace railyard::launch {
namespace {

struct Options {
  data::TokenizeOptions tokenize;
  std::string tokenizer;
};

// Cores that this process may use.
std::size_t usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? static_cast<std::size_t>(CPU_COUNT(&set)) : 1;
}

std::string human(double value, const char* unit) {
  const char* scale[] = {"", "k", "M", "G", "T"};
  std::size_t i = 0;
  while (value >= 1000.0 && i < 4) {
    value /= 1000.0;
    ++i;
  }
  return fmt::format("{:.{}f} {}{}", value, i == 0 ? 0 : 1, scale[i], unit);
}

std::string clock_time(double seconds) {
  const auto s = static_cast<long>(seconds);
  return s >= 3600 ? fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60)
                   : fmt::format("{}:{:02}", s / 60, s % 60);
}

// One line on a terminal, rewritten in place; nothing anywhere else.
class ProgressBar {
 public:
  void show(const data::TokenizeProgress& progress) {
    if (!terminal_) return;
    const double seconds = seconds_so_far();
    const double rate = seconds > 0 ? static_cast<double>(progress.bytes - progress.resumed_bytes) / seconds : 0.0;
    std::string line;
    if (progress.all_bytes > 0) {
      const double part = std::min(1.0, static_cast<double>(progress.bytes) / static_cast<double>(progress.all_bytes));
      const auto filled = static_cast<std::size_t>(part * 24);
      line = fmt::format("[{}{}] {:3.0f} %  ", std::string(filled, '#'), std::string(24 - filled, '.'), 100 * part);
    }
    line += fmt::format("{}  {} documents  {} tokens  {}/s", human(static_cast<double>(progress.bytes), "B"),
                        human(static_cast<double>(progress.documents), ""),
                        human(static_cast<double>(progress.tokens), ""), human(rate, "B"));
    if (progress.all_bytes > progress.bytes && rate > 0)
      line += fmt::format("  ETA {}", clock_time(static_cast<double>(progress.all_bytes - progress.bytes) / rate));
    fmt::print(stderr, "\r{}\033[K", line);
    std::fflush(stderr);
  }
  void clear() const {
    if (terminal_) fmt::print(stderr, "\r\033[K");
  }
  [[nodiscard]] double seconds_so_far() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  bool terminal_ = ::isatty(STDERR_FILENO) == 1;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

int run(Options& options) {
  options.tokenize.tokenizer = data::parse_tokenizer_spec(options.tokenizer);
  if (options.tokenize.threads == 0) options.tokenize.threads = usable_cores();
  if (!options.tokenize.append_eod)
    fmt::print(stderr,
               "railyard: note: without --append-eod nothing in the data set tells one document from the next\n");
  ProgressBar bar;
  data::TokenizeProgress done;
  try {
    done = data::tokenize(options.tokenize, [&](const data::TokenizeProgress& progress) { bar.show(progress); });
  } catch (...) {
    bar.clear();
    throw;
  }
  bar.clear();
  const double seconds = bar.seconds_so_far();
  for (const std::string& key : options.tokenize.keys)
    fmt::print("{}.bin\n", data::tokenized_prefix(options.tokenize.output, key));
  fmt::print(stderr, "railyard: {} documents, {} tokens from {} in {:.1f} s ({}/s){}{}\n", done.documents, done.tokens,
             human(static_cast<double>(done.bytes), "B"), seconds,
             human(static_cast<double>(done.bytes - done.resumed_bytes) / seconds, "B"),
             done.resumed_bytes > 0 ? ", going on from an earlier call" : "",
             done.skipped > 0 ? fmt::format("; {} lines left out", done.skipped) : "");
  return kExitDone;
}

}  // namespace

std::function<int()> define_data_tokenize(CLI::App& data) {
  CLI::App* command =
      data.add_subcommand("tokenize", "JSON lines (also .gz, .zst or a pipe) to PREFIX_text_document.bin/.idx.");
  command->footer(
      "A call that was stopped goes on where it was when it is given again.\n"
      "Examples:\n"
      "  railyard data tokenize web-*.jsonl.zst --output data/web --tokenizer "
      "huggingface:/models/llama3/tokenizer.json --append-eod\n"
      "  zcat web.jsonl.gz | railyard data tokenize - --output data/web --tokenizer gpt2:/models/gpt2 --append-eod");
  auto options = std::make_shared<Options>();
  command->add_option("INPUT,--input", options->tokenize.inputs, "files of JSON lines; - is standard input")
      ->required();
  command->add_option("-o,--output,--output-prefix", options->tokenize.output, "prefix of the data sets")->required();
  command
      ->add_option("--tokenizer", options->tokenizer,
                   "TYPE:PATH with char, bytes, gpt2, huggingface, sentencepiece or tiktoken")
      ->required();
  command->add_option("--key,--json-keys", options->tokenize.keys,
                      "the keys whose strings are taken, a data set each [text]");
  command->add_flag("--append-eod", options->tokenize.append_eod, "put the end-of-document token behind each document");
  options->tokenize.threads = 0;
  command->add_option("--threads,--workers", options->tokenize.threads, "threads that tokenise [all cores]")
      ->check(CLI::Range(std::size_t{1}, std::size_t{4096}));
  command->add_flag("--skip-invalid", options->tokenize.skip_invalid,
                    "leave lines out that cannot be used, and count them");
  command->add_flag("--force", options->tokenize.force, "replace data sets that exist");
  return [options] { return run(*options); };
}

}  // namespace railyard::launch
