// Shortening, smoothing and outliers of series.
#include "runtime/report/series.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace railyard {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kManyValues = 20;
constexpr std::size_t kNeighbourhood = 201;  // steps whose median a step is compared with

// Of known values, whose order changes.
double take_quantile(std::vector<double>& values, double share) {
  if (values.empty()) return kUnknown;
  const auto last = static_cast<double>(values.size() - 1);
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(std::lround(std::clamp(share, 0.0, 1.0) * last));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

}  // namespace

ShortSeries shorten(std::span<const StepRecord> rows, const StepValue& value, std::size_t points) {
  ShortSeries series;
  if (rows.empty() || points == 0) return series;
  series.whole = rows.size() <= points;
  const auto first = static_cast<double>(rows.front().step);
  const double range = (static_cast<double>(rows.back().step) - first + 1.0) / static_cast<double>(points);
  std::vector<double> values;
  for (std::size_t at = 0; at < rows.size();) {
    const double bucket = std::floor((static_cast<double>(rows[at].step) - first) / range);
    std::size_t next = at;
    values.clear();
    do {
      if (const double x = value(rows[next]); std::isfinite(x)) values.push_back(x);
      ++next;
    } while (!series.whole && next < rows.size() &&
             std::floor((static_cast<double>(rows[next].step) - first) / range) == bucket);
    series.steps.push_back(static_cast<double>(rows[next - 1].step));
    const double sum = std::accumulate(values.begin(), values.end(), 0.0);
    series.mean.push_back(values.empty() ? kUnknown : sum / static_cast<double>(values.size()));
    const double tail = values.size() >= kManyValues ? 0.05 : 0.0;
    series.low.push_back(take_quantile(values, tail));
    series.high.push_back(take_quantile(values, 1.0 - tail));
    at = next;
  }
  return series;
}

std::vector<double> smooth(std::span<const StepRecord> rows, const StepValue& value, double span) {
  double mean = kUnknown, seen = 0.0;
  std::vector<double> out;
  out.reserve(rows.size());
  for (const StepRecord& row : rows) {
    if (const double x = value(row); std::isfinite(x)) {
      seen += 1.0;
      const double weight = 1.0 - std::exp(-1.0 / std::clamp(seen / 10.0, 1e-3, std::max(span, 1e-3)));
      mean = std::isfinite(mean) ? mean + weight * (x - mean) : x;
    }
    out.push_back(mean);
  }
  return out;
}

double quantile(std::vector<double> values, double share) {
  std::erase_if(values, [](double value) { return !std::isfinite(value); });
  return take_quantile(values, share);
}

std::vector<SlowStep> slow_steps(std::span<const StepRecord> rows, std::span<const std::int64_t> resumes) {
  std::vector<SlowStep> slow;
  std::vector<double> near, distance;
  // The medians change slowly: they are taken once for each half neighbourhood.
  constexpr std::size_t kBlock = kNeighbourhood / 2;
  for (std::size_t block = 0; block < rows.size(); block += kBlock) {
    const std::size_t end = std::min(rows.size(), block + kBlock);
    const std::size_t from = block > kBlock / 2 ? block - kBlock / 2 : 0;
    const std::size_t to = std::min(rows.size(), end + kBlock / 2);
    near.clear();
    for (std::size_t i = from; i < to; ++i)
      if (std::isfinite(rows[i].step_s)) near.push_back(rows[i].step_s);
    if (near.size() < 5) continue;  // nothing is unusual among so few
    const double usual = take_quantile(near, 0.5);
    distance.clear();
    for (double seconds : near) distance.push_back(std::abs(seconds - usual));
    const double limit = usual + std::max(6.0 * 1.4826 * take_quantile(distance, 0.5), 0.25 * usual);
    for (std::size_t i = block; i < end; ++i) {
      const bool start_up = i == 0 || std::find(resumes.begin(), resumes.end(), rows[i].step) != resumes.end();
      if (rows[i].step_s > limit && !start_up) slow.push_back({rows[i].step, rows[i].step_s, usual});
    }
  }
  return slow;
}

}  // namespace railyard
