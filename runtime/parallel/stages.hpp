// Which layers sit on which virtual pipeline stage.
#pragma once

#include <cstdint>
#include <vector>

namespace railyard {

struct LayerRange {
  std::int64_t begin = 0, end = 0;
};

// Splits `layers` over `pieces` virtual stages in order, as evenly as can be; the stages that carry the embedding and
// the output head are the last to get one more. `first` and `last` fix the sizes of the outer stages (0: free).
// UsageError names the keys when a stage would be empty.
std::vector<LayerRange> split_layers(std::int64_t layers, int pieces, std::int64_t first, std::int64_t last);

}  // namespace railyard
