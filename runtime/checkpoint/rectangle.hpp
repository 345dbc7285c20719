// Rectangles inside tensors: what a checkpoint chunk covers, and how a flat range falls into rectangles.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace railyard {

// Elements per axis, outermost first.
using Extents = std::vector<std::int64_t>;

// The block [offset, offset + shape) of a tensor, in elements per axis. A scalar's block has no axes.
struct Rectangle {
  Extents offset;
  Extents shape;
  friend bool operator==(const Rectangle&, const Rectangle&) = default;
};

// Number of elements; nothing when it does not fit 63 bits or an extent is negative.
[[nodiscard]] std::optional<std::int64_t> checked_volume(const Extents& shape);
// Number of elements of a shape already known to be sane.
[[nodiscard]] std::int64_t volume(const Extents& shape);
// "[4096, 1024]"
[[nodiscard]] std::string shape_text(const Extents& shape);

// Whether the rectangle has the axes of a tensor of `global` shape and lies inside it.
[[nodiscard]] bool lies_inside(const Rectangle& rectangle, const Extents& global);
// The common part of two rectangles of the same number of axes; nothing when it holds no element.
[[nodiscard]] std::optional<Rectangle> intersect(const Rectangle& left, const Rectangle& right);

// Cuts the elements [begin, end) of a row-major tensor into rectangles, in ascending order; each is contiguous in
// row-major order, so a flat buffer of the range is their concatenation. At most 2k - 1 of them for k axes (1 for a
// scalar). This is how a distributed optimizer's flat shard becomes chunks of the logical tensor.
[[nodiscard]] std::vector<Rectangle> decompose_range(const Extents& shape, std::int64_t begin, std::int64_t end);

// What is wrong with a set of rectangles that should cover each element of `global` exactly once; nothing when they
// do. `overlap` (may be null) receives the indices of two rectangles that overlap.
[[nodiscard]] std::optional<std::string> coverage_fault(const Extents& global, const std::vector<Rectangle>& rectangles,
                                                        std::pair<std::size_t, std::size_t>* overlap = nullptr);

}  // namespace railyard
