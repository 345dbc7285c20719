// Long series made short for a picture, and what is unusual in them.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "runtime/report/metrics.hpp"

namespace railyard {

// A number of each step; NaN where it is unknown.
using StepValue = std::function<double(const StepRecord&)>;

// One point for each of at most `points` equal ranges of steps. `low` and `high` are the least and the greatest value
// of a range; of one with many values the 5th and 95th of 100, as two strange steps in a thousand say nothing of the
// others. A range without known values has NaN in all three.
struct ShortSeries {
  std::vector<double> steps;  // the last step of the range that has a row
  std::vector<double> low, mean, high;
  bool whole = true;  // each point is one step: low, mean and high agree
};
ShortSeries shorten(std::span<const StepRecord> rows, const StepValue& value, std::size_t points);

// An exponential mean over `span` steps, over fewer at the begin (a tenth of what has been seen), where curves fall
// fast; unknown values are passed over. As long as `rows`.
std::vector<double> smooth(std::span<const StepRecord> rows, const StepValue& value, double span);

// The value below which `share` of the known values are; NaN when none is known.
double quantile(std::vector<double> values, double share);

// Steps that took much longer than their neighbourhood: above its median by six times its spread (the median absolute
// deviation) and by a quarter. The first step of all, and each that follows a resume, are start-up and are left out.
struct SlowStep {
  std::int64_t step = 0;
  double seconds = 0.0, usual = 0.0;
};
std::vector<SlowStep> slow_steps(std::span<const StepRecord> rows, std::span<const std::int64_t> resumes);

}  // namespace railyard
