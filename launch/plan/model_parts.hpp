// One layer of each kind that a layout's ranks hold, from shapes alone: what volumes and times are counted from without
// building every stage of a large model.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/base/layout.hpp"
#include "runtime/model/layer.hpp"

namespace railyard::launch {

struct ModelParts {
  ModelShape shape;
  std::unique_ptr<Layer> embedding, block, head;
  std::unique_ptr<Layer>
      wide_block;  // a block at an end that stays in 16 bits when the others multiply in 8; else null

  [[nodiscard]] bool is_wide(std::int64_t layer) const;
};

// `job.model.vocab` must be known. UsageError, naming the keys, when the layout cannot split the model.
[[nodiscard]] ModelParts model_parts(const JobSpec& job, const Layout& layout);

// Elements of all parameters of a layer on one rank.
[[nodiscard]] double parameter_elements(const Layer& layer);

// Blocks of each virtual stage, in the order of the model.
[[nodiscard]] std::vector<std::int64_t> blocks_by_piece(const JobSpec& job, const Layout& layout);

}  // namespace railyard::launch
