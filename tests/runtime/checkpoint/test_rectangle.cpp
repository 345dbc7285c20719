// Flat ranges become rectangles that cover them exactly, in order and in the promised number.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/checkpoint/rectangle.hpp"

namespace railyard {
namespace {

// The flat indices of a rectangle's elements, in row-major order.
std::vector<std::int64_t> flat_indices(const Extents& shape, const Rectangle& rectangle) {
  std::vector<std::int64_t> out = {0};
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    std::vector<std::int64_t> next;
    for (const std::int64_t base : out)
      for (std::int64_t i = 0; i < rectangle.shape[axis]; ++i)
        next.push_back(base * shape[axis] + rectangle.offset[axis] + i);
    out = next;
  }
  return out;
}

TEST(Rectangle, EveryRangeOfSmallTensors) {
  for (const Extents& shape :
       std::vector<Extents>{{}, {7}, {3, 4}, {1, 5}, {5, 1}, {2, 3, 4}, {3, 1, 4}, {2, 2, 2, 3}}) {
    const std::int64_t total = volume(shape);
    const std::size_t limit = shape.empty() ? 1 : 2 * shape.size() - 1;
    for (std::int64_t begin = 0; begin <= total; ++begin) {
      for (std::int64_t end = begin; end <= total; ++end) {
        std::vector<std::int64_t> covered, expected;
        for (std::int64_t i = begin; i < end; ++i) expected.push_back(i);
        const auto parts = decompose_range(shape, begin, end);
        ASSERT_LE(parts.size(), limit);
        for (const Rectangle& part : parts) {
          ASSERT_TRUE(lies_inside(part, shape));
          for (const std::int64_t index : flat_indices(shape, part)) covered.push_back(index);
        }
        ASSERT_EQ(covered, expected) << shape_text(shape) << " " << begin << " " << end;
      }
    }
  }
}

TEST(Rectangle, AnEmptyTensorHasNoParts) { EXPECT_TRUE(decompose_range({4, 0, 3}, 0, 0).empty()); }

TEST(Rectangle, CoverageFindsGapsOverlapsAndStrays) {
  using Parts = std::vector<Rectangle>;
  EXPECT_FALSE(coverage_fault({4, 6}, Parts{{{0, 0}, {4, 3}}, {{0, 3}, {2, 3}}, {{2, 3}, {2, 3}}}));
  EXPECT_THAT(*coverage_fault({4, 6}, Parts{{{0, 0}, {4, 3}}, {{0, 3}, {2, 3}}}), testing::HasSubstr("6 of its 24"));
  std::pair<std::size_t, std::size_t> overlap;
  // The same number of elements as the whole, but one corner twice and one never.
  EXPECT_THAT(*coverage_fault({4, 6}, Parts{{{0, 3}, {2, 3}}, {{0, 0}, {4, 3}}, {{1, 3}, {2, 3}}}, &overlap),
              testing::HasSubstr("at [1, 3] of shape [1, 3]"));
  EXPECT_EQ(overlap, (std::pair<std::size_t, std::size_t>{0, 2}));
  EXPECT_THAT(*coverage_fault({4, 6}, Parts{{{1, 0}, {4, 6}}}), testing::HasSubstr("outside"));
  EXPECT_THAT(*coverage_fault({}, Parts{{}, {}}), testing::HasSubstr("same element"));
  EXPECT_FALSE(coverage_fault({}, Parts{{}}));
  EXPECT_FALSE(coverage_fault({0, 5}, Parts{}));
  EXPECT_FALSE(coverage_fault({3}, Parts{{{0}, {3}}, {{3}, {0}}, {{1}, {0}}}));
  EXPECT_TRUE(coverage_fault({3}, Parts{}));
}

TEST(Rectangle, HugeExtentsDoNotOverflow) {
  EXPECT_FALSE(checked_volume({INT64_MAX, 2}));
  EXPECT_FALSE(checked_volume({-1}));
  EXPECT_FALSE(lies_inside({{INT64_MAX}, {INT64_MAX}}, {8}));
  EXPECT_FALSE(lies_inside({{1}, {INT64_MAX}}, {8}));
}

}  // namespace
}  // namespace railyard
