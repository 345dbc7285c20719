// Intersects a wanted rectangle with a saved chunk and reads the runs they share.
#include "runtime/checkpoint/chunk_read.hpp"

#include <algorithm>

namespace railyard {
namespace {

// Runs nearer to each other than this are read at once: a disk or a network file system moves pages anyway.
constexpr std::uint64_t kGap = 16 << 10;
// The most that is read at once into the staging buffer.
constexpr std::uint64_t kWindow = 4 << 20;

// A stretch that is contiguous both in the chunk and in the destination.
struct Run {
  std::uint64_t source;  // bytes from the chunk's start
  std::byte* destination;
};

// The runs of `common` in ascending source order, each of `elements` elements.
std::vector<Run> runs_of(const Rectangle& common, const Rectangle& chunk, const Rectangle& wanted, const HostView& out,
                         std::size_t source_size, std::int64_t& elements) {
  const std::size_t axes = common.shape.size();
  const auto element = static_cast<std::int64_t>(dtype_size(out.dtype));
  // Strides of the chunk in elements, of the destination in bytes.
  Extents from(axes, 1), to(axes, element);
  for (std::size_t axis = axes; axis-- > 1;) {
    from[axis - 1] = from[axis] * chunk.shape[axis];
    to[axis - 1] = to[axis] * wanted.shape[axis];
  }
  if (axes > 0 && out.row_stride != 0) to[0] = out.row_stride;
  // Trailing axes melt into one run as long as both sides are contiguous across them.
  std::size_t outer = axes;
  elements = 1;
  while (outer > 0 && from[outer - 1] == elements && to[outer - 1] == elements * element)
    elements *= common.shape[--outer];
  std::int64_t count = 1;
  for (std::size_t axis = 0; axis < outer; ++axis) count *= common.shape[axis];
  std::vector<Run> runs;
  runs.reserve(static_cast<std::size_t>(count));
  Extents index(axes, 0);
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t source = 0, destination = 0;
    for (std::size_t axis = 0; axis < axes; ++axis) {
      source += (common.offset[axis] - chunk.offset[axis] + index[axis]) * from[axis];
      destination += (common.offset[axis] - wanted.offset[axis] + index[axis]) * to[axis];
    }
    runs.push_back({static_cast<std::uint64_t>(source) * source_size, static_cast<std::byte*>(out.data) + destination});
    for (std::size_t axis = outer; axis-- > 0;) {
      if (++index[axis] < common.shape[axis]) break;
      index[axis] = 0;
    }
  }
  return runs;
}

}  // namespace

std::uint64_t read_chunk(const File& file, const SavedChunk& chunk, const Rectangle& wanted, const HostView& out,
                         std::vector<std::byte>& window) {
  if (volume(chunk.where.shape) == 0) return 0;
  const auto common = intersect(chunk.where, wanted);
  if (!common) return 0;
  const std::size_t source_size = dtype_size(chunk.dtype), out_size = dtype_size(out.dtype);
  std::uint64_t bytes_read = 0;
  std::int64_t elements = 0;
  const std::vector<Run> runs = runs_of(*common, chunk.where, wanted, out, source_size, elements);
  const std::uint64_t length = static_cast<std::uint64_t>(elements) * source_size;
  const bool direct = chunk.dtype == out.dtype && length >= kGap;
  for (std::size_t first = 0; first < runs.size();) {
    if (direct) {
      file.read_at({runs[first].destination, length}, chunk.position + runs[first].source);
      bytes_read += length;
      ++first;
      continue;
    }
    // A window takes as many near runs as fit; a run longer than the window is read in pieces.
    std::size_t last = first;
    const std::uint64_t begin = runs[first].source;
    while (last + 1 < runs.size() && runs[last + 1].source - (runs[last].source + length) <= kGap &&
           runs[last + 1].source + length - begin <= kWindow)
      ++last;
    const std::uint64_t end = runs[last].source + length;
    for (std::uint64_t from = begin; from < end;) {
      const std::uint64_t bytes = std::min(end - from, kWindow);
      window.resize(bytes);
      file.read_at(window, chunk.position + from);
      bytes_read += bytes;
      if (last > first) {
        for (std::size_t i = first; i <= last; ++i)
          convert_elements(window.data() + (runs[i].source - begin), chunk.dtype, runs[i].destination, out.dtype,
                           static_cast<std::size_t>(elements));
      } else {
        convert_elements(window.data(), chunk.dtype, runs[first].destination + (from - begin) / source_size * out_size,
                         out.dtype, bytes / source_size);
      }
      from += bytes;
    }
    first = last + 1;
  }
  return bytes_read;
}

}  // namespace railyard
