// The last layer: final norm, output projection split over the vocabulary, cross-entropy.
#pragma once

#include "runtime/model/layer.hpp"

namespace railyard {

struct OutputHeadOptions {
  bool tied_here = false;        // the embedding is on this rank too: its weight is the second parameter bound
  std::int64_t chunk_bytes = 0;  // logits are made for so many bytes of tokens at a time, never all at once
};

// The gradient of the loss is known as soon as a chunk of logits exists, so forward computes it at once: logits live
// for one chunk. Backward hands it through the norm.
std::unique_ptr<Layer> make_output_head(const ModelShape& shape, const OutputHeadOptions& options);

}  // namespace railyard
