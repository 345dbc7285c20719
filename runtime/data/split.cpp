// Splits, as megatron/core/datasets/blended_megatron_dataset_config.py computes them.
#include "runtime/data/split.hpp"

#include <cmath>
#include <cstdlib>
#include <vector>

#include "runtime/base/error.hpp"

namespace railyard::data {

std::array<double, 4> parse_split(const std::string& split) {
  std::vector<double> weights;
  for (std::size_t i = 0; i < split.size();) {
    const std::size_t end = std::min(split.find_first_not_of(".0123456789", i), split.size());
    if (end == i) {
      if (split[i] == '-') throw UsageError("data.split: \"{}\": a part cannot be negative", split);
      ++i;
      continue;
    }
    const std::string number = split.substr(i, end - i);
    char* parsed = nullptr;
    weights.push_back(std::strtod(number.c_str(), &parsed));
    if (*parsed != '\0') throw UsageError("data.split: \"{}\": {} is not a number", split, number);
    i = end;
  }
  if (weights.empty() || weights.size() > 3)
    throw UsageError("data.split: \"{}\": expected up to three numbers, such as \"969,30,1\"", split);
  weights.resize(3, 0.0);
  const double sum = weights[0] + weights[1] + weights[2];
  if (!(sum > 0.0) || !std::isfinite(sum)) throw UsageError("data.split: \"{}\": the parts are all zero", split);
  std::array<double, 4> cumulative{};
  for (std::size_t i = 0; i < 3; ++i) cumulative[i + 1] = cumulative[i] + weights[i] / sum;
  return cumulative;
}

std::array<std::int64_t, 4> split_bounds(const std::array<double, 4>& fractions, std::int64_t count,
                                         SplitRounding rounding) {
  std::array<std::int64_t, 4> bounds{};
  for (std::size_t i = 1; i < 4; ++i) {
    const double exact = fractions[i] * static_cast<double>(count);
    bounds[i] = static_cast<std::int64_t>(rounding == SplitRounding::kDown ? std::floor(exact) : std::nearbyint(exact));
  }
  // The last fraction is 1 up to rounding; nothing may lie past the end, nor be lost to a sum of 0.999...
  if (fractions[3] > 1.0 - 1e-9) bounds[3] = count;
  for (std::int64_t& bound : bounds) bound = std::min(bound, count);
  return bounds;
}

}  // namespace railyard::data
