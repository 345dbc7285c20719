// Distribution of layers over virtual pipeline stages.
#include "runtime/parallel/stages.hpp"

#include "runtime/base/error.hpp"

namespace railyard {

std::vector<LayerRange> split_layers(std::int64_t layers, int pieces, std::int64_t first, std::int64_t last) {
  std::vector<std::int64_t> sizes(static_cast<size_t>(pieces), 0);
  const int fixed = pieces > 1 ? (first > 0) + (last > 0) : 0;
  const std::int64_t free_layers = layers - (pieces > 1 ? first + last : 0);
  const int free_pieces = pieces - fixed;
  if (free_layers < free_pieces || (free_pieces == 0 && free_layers != 0))
    throw UsageError(
        "parallel: {} layers cannot be split over {} pipeline stages (pp x vpp{}); every stage needs a layer", layers,
        pieces, fixed > 0 ? ", with first_stage_layers and last_stage_layers" : "");
  if (pieces > 1) {
    sizes.front() = first;
    sizes.back() = last;
  }
  std::vector<size_t> open;  // inner stages first, then the first, then the last
  for (size_t i = 1; i + 1 < sizes.size(); ++i) open.push_back(i);
  if (sizes.front() == 0) open.push_back(0);
  if (sizes.size() > 1 && sizes.back() == 0) open.push_back(sizes.size() - 1);
  for (size_t k = 0; k < open.size(); ++k)
    sizes[open[k]] = free_layers / free_pieces + (static_cast<std::int64_t>(k) < free_layers % free_pieces ? 1 : 0);
  std::vector<LayerRange> ranges;
  std::int64_t begin = 0;
  for (const std::int64_t size : sizes) {
    ranges.push_back({begin, begin + size});
    begin += size;
  }
  return ranges;
}

}  // namespace railyard
