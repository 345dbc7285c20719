// The `split` key: "969,30,1" as fractions and as bounds.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace railyard::data {

inline constexpr const char* kDefaultSplit = "969,30,1";  // Megatron's

// Cumulative fractions of train, valid and test: {0, .969, .999, 1}. Numbers are what matches [.0-9]+; missing ones are
// 0. UsageError: not a number, more than three, or all zero.
std::array<double, 4> parse_split(const std::string& split);

// Bounds of the three parts of `count` items: fractions times count, halves to even (Megatron's rule for data sets), or
// cut down (the first int(0.9 n) characters of a text, as nanoGPT does).
enum class SplitRounding { kHalfToEven, kDown };
std::array<std::int64_t, 4> split_bounds(const std::array<double, 4>& fractions, std::int64_t count,
                                         SplitRounding rounding);

}  // namespace railyard::data
