// Cuts a chunk's blocks into groups that are computed again together.
#include "runtime/train/recompute.hpp"

#include <algorithm>

#include "runtime/base/error.hpp"

namespace railyard {

std::vector<RecomputePlace> recompute_places(const RecomputeSpec& spec, std::size_t blocks) {
  std::vector<RecomputePlace> places(blocks);
  if (spec.granularity.empty() || spec.granularity == "none") return places;
  if (spec.granularity != "full")
    throw UsageError(
        "train.recompute.granularity: \"{}\" is not built; attention keeps no scores here anyway: use \"none\" or "
        "\"full\"",
        spec.granularity);
  const bool block = spec.method == "block";
  const auto layers = static_cast<std::size_t>(std::max<std::int64_t>(1, spec.layers));
  const std::size_t count = block ? std::min(layers, blocks) : blocks, size = block ? 1 : layers;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t first = i / size * size;
    places[i] = {static_cast<int>(i - first), i + 1 == std::min(first + size, blocks), first};
  }
  return places;
}

}  // namespace railyard
