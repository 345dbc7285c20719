// What a Hugging Face config.json says, as our ModelSpec and as a map from their tensors to ours; and the way back.
// Spellings of transformers 4 and 5 are read; what is written both can read.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/dtype.hpp"
#include "runtime/base/job.hpp"
#include "runtime/checkpoint/rectangle.hpp"

namespace railyard {

// Rows of a matrix whose rotary part is stored in pairs (2i, 2i+1) there and in halves (i, i + count/2) here: in every
// `head` rows, the `count` rows from `first` on.
struct RotaryRows {
  std::int64_t head = 0, first = 0, count = 0;
};

// The row of theirs that is our row `row`.
[[nodiscard]] std::int64_t rotary_source_row(const RotaryRows& rotary, std::int64_t row);

// Where one of our tensors lies in one of theirs. Without `transposed` it is a contiguous stretch from `offset`
// (elements); with it (GPT-2's Conv1D, [in, out]) our row r is their column offset + r. With no name of ours, theirs is
// zero there (a bias that our model does not have).
struct HfPart {
  std::string ours;
  Extents shape;
  std::string theirs;
  Extents their_shape;
  std::int64_t offset = 0;
  bool transposed = false;
  std::optional<RotaryRows> rotary;
};

// An architecture with its sizes.
struct HfModel {
  std::string architecture;  // "LlamaForCausalLM", ...
  Json config;               // as it was read or made
  std::optional<ModelSpec> spec;
  std::string not_built;  // without a spec: what the runtime lacks, "experts", ...
};

// Reads a config.json. UsageError, beginning with `source`: an architecture or an option that cannot be expressed, a
// missing or contradictory size.
[[nodiscard]] HfModel read_hf_config(const Json& config, const std::string& source);

// The config.json of a model, whose weights are of `dtype`. UsageError naming the keys that no architecture of theirs
// has together.
[[nodiscard]] HfModel make_hf_config(const ModelSpec& model, DType dtype);

// All tensors of the model. `present` says which of their names exist, to tell spellings apart (GPT-2's optional
// prefix, experts one by one or fused); without it: the names to write.
[[nodiscard]] std::vector<HfPart> hf_parts(const HfModel& model,
                                           const std::function<bool(const std::string&)>& present = {});

// Whether a tensor of theirs holds nothing that is learnt and may be left out: tables of rotary frequencies, causal
// masks, and layers beyond the last (DeepSeek's extra prediction layers).
[[nodiscard]] bool hf_ignored(const HfModel& model, const std::string& theirs);

// A job file that continues from imported weights: `checkpoint` is the folder of checkpoints, `tokenizer` (may be
// empty) a tokenizer.json.
[[nodiscard]] std::string job_file_text(const std::string& name, const ModelSpec& model, const std::string& checkpoint,
                                        const std::string& tokenizer);

}  // namespace railyard
