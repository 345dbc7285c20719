// JSON lines to Megatron data sets, on all cores, in bounded memory, able to go on after a stop.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/data/tokenizer/tokenizer.hpp"

namespace railyard::data {

struct TokenizeProgress {
  std::uint64_t bytes = 0, all_bytes = 0;  // of the input files; all_bytes 0: unknown
  std::uint64_t documents = 0, tokens = 0, skipped = 0;
  std::uint64_t resumed_bytes = 0;  // of `bytes`, done by an earlier call
};

struct TokenizeOptions {
  std::vector<std::string> inputs;  // files, plain, .gz or .zst; "-": standard input
  std::string output;               // a data set OUTPUT_KEY_document for each key
  TokenizerSpec tokenizer;
  std::vector<std::string> keys{"text"};
  bool append_eod = false;
  bool skip_invalid = false;  // leave lines out that cannot be used, and count them
  bool force = false;         // replace data sets that are there
  std::size_t threads = 1;
  double journal_seconds = 10.0;                          // between records of progress: what a kill can cost
  std::function<void(const TokenizeProgress&)> on_batch;  // after each batch that was written; may throw to stop
};

// Writes OUTPUT_KEY_document.{bin,idx} as Megatron's preprocess_data.py does: one sequence a document, the
// end-of-document token behind it with append_eod, a text without tokens as a document without sequences. Progress is
// kept in OUTPUT.progress.json: the same call after a stop goes on there (standard input must bring the same bytes
// again). `report` is called about twice a second. UsageError: input that cannot be used, with file and line; outputs
// that exist without `force`. RunError: the disk.
TokenizeProgress tokenize(const TokenizeOptions& options, const std::function<void(const TokenizeProgress&)>& report);

// The data set of a key.
[[nodiscard]] std::string tokenized_prefix(const std::string& output, const std::string& key);

}  // namespace railyard::data
