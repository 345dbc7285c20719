// What the trainer reads: numbered samples of a data set, each a pure function of (job, seed, number).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/job.hpp"
#include "runtime/data/tokenizer/tokenizer.hpp"

namespace railyard::data {

// How the end-of-document token acts on a sample (Megatron's reset_position_ids, reset_attention_mask, eod_mask_loss).
// Positions count from the token after each end-of-document in the inputs.
struct SampleRules {
  std::int32_t eod = -1;  // -1: no such token, the three flags must be false
  bool reset_positions = false;
  bool reset_attention = false;
  bool mask_eod_loss = false;
  std::int32_t vocab_size = 0;  // ids at or above it are refused while reading; 0: any id that is not negative
};

// Buffers of the caller for one sample. `tokens` and `labels` hold seq_length elements; labels[i] is the token after
// tokens[i]. The others may be empty (null): not wanted.
struct Sample {
  std::span<std::int32_t> tokens;
  std::span<std::int32_t> labels;
  std::span<float> loss_mask;                            // [seq_length], 1 counts, 0 does not
  std::span<std::int32_t> positions;                     // [seq_length], 0, 1, 2 ... unless positions are reset
  std::vector<std::int32_t>* document_starts = nullptr;  // where attention starts anew, without 0; empty unless reset
};

// A split. Objects are immutable after construction: read() is safe from any number of threads.
class Dataset {
 public:
  Dataset(std::int64_t seq_length, std::int64_t size, SampleRules rules);
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;
  virtual ~Dataset() = default;

  // Writes sample `number` (0 <= number < size(); the trainer's step s of global batch B reads s*B ... s*B+B-1,
  // whatever the layout). RunError when the file holds an id outside the vocabulary; it names file and place.
  void read(std::int64_t number, const Sample& sample) const;

  [[nodiscard]] std::int64_t size() const { return size_; }
  [[nodiscard]] std::int64_t seq_length() const { return seq_length_; }
  // Whether a loss mask other than all ones, positions other than 0, 1, 2 ... or document starts can occur at all.
  [[nodiscard]] bool has_loss_mask() const { return rules_.mask_eod_loss || has_padding(); }
  [[nodiscard]] bool has_positions() const { return rules_.reset_positions; }
  [[nodiscard]] bool has_document_starts() const { return rules_.reset_attention; }

  // Fills up to seq_length + 1 consecutive tokens of sample `number` and returns how many there are (fewer only in a
  // padded last sample). What read() is made of; a blend calls it on its parts.
  virtual std::int64_t window(std::int64_t number, std::span<std::int32_t> tokens) const = 0;
  // "FILE, document 12" and the like, for messages about sample `number`.
  [[nodiscard]] virtual std::string place(std::int64_t number) const = 0;
  // All that the order and content of samples depend on; equal descriptions mean equal samples.
  [[nodiscard]] virtual Json order() const = 0;
  [[nodiscard]] virtual bool has_padding() const { return false; }

 private:
  std::int64_t seq_length_;
  std::int64_t size_;
  SampleRules rules_;
};

struct DataOptions {
  std::filesystem::path run_dir;    // prepared files go to its folder "cache" when data.cache is empty
  std::filesystem::path data_root;  // relative data paths start here; empty: the current folder
};

// The data of a job.
struct DataSplits {
  std::unique_ptr<Dataset> train;
  std::unique_ptr<Dataset> valid, test;  // null when the job does not evaluate or the split is empty by its weights
  std::int64_t vocab_size = 0;           // of the tokenizer, else model.vocab; ids are below it
  std::unique_ptr<Tokenizer> tokenizer;  // null: data sets of ids without a tokenizer
  std::string digest;                    // hexadecimal, of `order`: kept in checkpoints, a resume needs the same
  Json order;                            // what the training samples depend on, to explain a difference of digests
};

// Opens (and, where it is not cached yet, prepares) the data of a job. Samples needed: train.iterations * global_batch
// for training, (iterations / eval.every + 1) * eval.batches * global_batch for validation and eval.batches *
// global_batch for the test, as Megatron-Core counts them. Prepared files go to data.cache, else RUN_DIR/cache; they
// appear whole or not at all, so ranks may call this at the same time, but calling it on one rank per node first saves
// the repeated work. UsageError: missing or damaged files, an empty text or split, a split shorter than a sequence, no
// tokenizer.
DataSplits open_splits(const JobSpec& job, const DataOptions& options);

// The tokenizer of a job (char: of its text); null when it names none. UsageError when it cannot be opened.
std::unique_ptr<Tokenizer> job_tokenizer(const JobSpec& job, const DataOptions& options);

// Samples that each split needs.
struct SampleCounts {
  std::int64_t train = 0, valid = 0, test = 0;
};
[[nodiscard]] SampleCounts sample_counts(const JobSpec& job);

}  // namespace railyard::data
