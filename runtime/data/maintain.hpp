// Looking after data sets: a full check, merging, and counts for people.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/data/indexed_dataset.hpp"

namespace railyard::data {

// Called now and then with the share that is done, 0 to 1.
using ShareDone = std::function<void(double)>;

struct VerifyOptions {
  std::int64_t vocab_size = 0;      // ids must be below it; 0: unknown
  std::optional<std::int32_t> eod;  // documents should end with it; nothing: unknown
};

// Reads everything and tells what is odd, a sentence each; empty: clean. What makes the data set unusable is a
// UsageError of its opening.
std::vector<std::string> verify_dataset(const IndexedDataset& file, const VerifyOptions& options,
                                        const ShareDone& done);

// Appends the inputs to one data set in bounded memory. Equal token types are kept, different integer types become
// int32. UsageError: the output exists, modes in some inputs only, ids that do not fit.
void merge_datasets(const std::vector<std::filesystem::path>& inputs, const std::filesystem::path& output, bool force,
                    const ShareDone& done);

// Counts of a data set.
struct DatasetSummary {
  std::int64_t empty_documents = 0, shortest = 0, longest = 0;  // lengths in tokens, of sequences
  double mean = 0.0;
  std::array<std::int64_t, 32> histogram{};  // [k]: sequences of 2^(k-1) up to 2^k - 1 tokens; [0]: empty ones
};
DatasetSummary summarise(const IndexedDataset& file);

}  // namespace railyard::data
