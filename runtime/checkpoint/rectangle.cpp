// Rectangle arithmetic.
#include "runtime/checkpoint/rectangle.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "runtime/base/error.hpp"

namespace railyard {
namespace {

// decompose_range below a fixed index prefix; `axis` is the first free one.
void decompose(const Extents& shape, Extents& prefix, std::int64_t begin, std::int64_t end,
               std::vector<Rectangle>& out) {
  const std::size_t axis = prefix.size();
  const auto emit = [&](std::int64_t first, std::int64_t count) {
    Rectangle rectangle;
    rectangle.offset = prefix;
    rectangle.shape.assign(prefix.size(), 1);
    rectangle.offset.push_back(first);
    rectangle.shape.push_back(count);
    for (std::size_t inner_axis = axis + 1; inner_axis < shape.size(); ++inner_axis) {
      rectangle.offset.push_back(0);
      rectangle.shape.push_back(shape[inner_axis]);
    }
    out.push_back(std::move(rectangle));
  };
  std::int64_t inner = 1;
  for (std::size_t i = axis + 1; i < shape.size(); ++i) inner *= shape[i];
  const auto descend = [&](std::int64_t row, std::int64_t from, std::int64_t to) {
    prefix.push_back(row);
    decompose(shape, prefix, from, to, out);
    prefix.pop_back();
  };
  const std::int64_t first = begin / inner, last = end / inner;  // rows that hold begin and end
  const std::int64_t head = begin % inner, tail = end % inner;
  if (first == last) {
    descend(first, head, tail);
    return;
  }
  if (head != 0) descend(first, head, inner);
  const std::int64_t full = head == 0 ? first : first + 1;
  if (last > full) emit(full, last - full);
  if (tail != 0) descend(last, 0, tail);
}

}  // namespace

std::optional<std::int64_t> checked_volume(const Extents& shape) {
  std::int64_t product = 1;
  for (const std::int64_t extent : shape)
    if (extent < 0 || __builtin_mul_overflow(product, extent, &product)) return std::nullopt;
  return product;
}

std::int64_t volume(const Extents& shape) {
  const auto product = checked_volume(shape);
  RAILYARD_CHECK(product.has_value(), "shape {}", shape_text(shape));
  return *product;
}

std::string shape_text(const Extents& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

bool lies_inside(const Rectangle& rectangle, const Extents& global) {
  if (rectangle.offset.size() != global.size() || rectangle.shape.size() != global.size()) return false;
  for (std::size_t axis = 0; axis < global.size(); ++axis) {
    if (rectangle.offset[axis] < 0 || rectangle.shape[axis] < 0 || rectangle.offset[axis] > global[axis]) return false;
    if (rectangle.shape[axis] > global[axis] - rectangle.offset[axis]) return false;
  }
  return true;
}

std::optional<Rectangle> intersect(const Rectangle& left, const Rectangle& right) {
  Rectangle common;
  for (std::size_t axis = 0; axis < left.shape.size(); ++axis) {
    const std::int64_t begin = std::max(left.offset[axis], right.offset[axis]);
    const std::int64_t end = std::min(left.offset[axis] + left.shape[axis], right.offset[axis] + right.shape[axis]);
    if (end <= begin) return std::nullopt;
    common.offset.push_back(begin);
    common.shape.push_back(end - begin);
  }
  return common;
}

std::vector<Rectangle> decompose_range(const Extents& shape, std::int64_t begin, std::int64_t end) {
  RAILYARD_CHECK(0 <= begin && begin <= end && end <= volume(shape), "range [{}, {}) of {}", begin, end,
                 shape_text(shape));
  if (begin == end) return {};
  if (shape.empty()) return {Rectangle{}};
  std::vector<Rectangle> out;
  Extents prefix;
  decompose(shape, prefix, begin, end, out);
  return out;
}

std::optional<std::string> coverage_fault(const Extents& global, const std::vector<Rectangle>& rectangles,
                                          std::pair<std::size_t, std::size_t>* overlap) {
  const std::int64_t total = volume(global);
  std::int64_t covered = 0;
  for (const Rectangle& rectangle : rectangles) {
    if (!lies_inside(rectangle, global))
      return fmt::format("the part at {} of shape {} lies outside of {}", shape_text(rectangle.offset),
                         shape_text(rectangle.shape), shape_text(global));
    const std::int64_t part = volume(rectangle.shape);
    if (part > std::numeric_limits<std::int64_t>::max() - covered) return "the parts overlap";
    covered += part;
  }
  // Sweep along the first axis: only rectangles whose extents there meet are compared.
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < rectangles.size(); ++i)
    if (volume(rectangles[i].shape) > 0) order.push_back(i);
  if (global.empty() ? order.size() > 1 : false) {
    if (overlap != nullptr) *overlap = {order[0], order[1]};
    return "two parts hold the same element";
  }
  if (!global.empty()) {
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return rectangles[a].offset < rectangles[b].offset; });
    std::vector<std::size_t> active;
    for (const std::size_t current : order) {
      const Rectangle& rectangle = rectangles[current];
      std::erase_if(active, [&](std::size_t other) {
        return rectangles[other].offset[0] + rectangles[other].shape[0] <= rectangle.offset[0];
      });
      for (const std::size_t other : active) {
        if (const auto common = intersect(rectangle, rectangles[other])) {
          if (overlap != nullptr) *overlap = {std::min(current, other), std::max(current, other)};
          return fmt::format("two parts hold the elements at {} of shape {}", shape_text(common->offset),
                             shape_text(common->shape));
        }
      }
      active.push_back(current);
    }
  }
  if (covered != total) return fmt::format("{} of its {} elements are in no part", total - covered, total);
  return std::nullopt;
}

}  // namespace railyard
