// Smooths, compares and names.
#include "runtime/train/slow_rank.hpp"

#include "runtime/base/error.hpp"

namespace railyard {

SlowRankWatch::SlowRankWatch(int rank, int stages, int stage) : rank_(rank), stages_(stages), stage_(stage) {
  RAILYARD_CHECK(stage >= 0 && stage < stages, "stage {} of {}", stage, stages);
}

void SlowRankWatch::add(double own_seconds) {
  own_ = steps_ == 0 ? own_seconds : own_ + kSmoothing * (own_seconds - own_);
  ++steps_;
}

// Layout: the longest own part of each stage, minus the shortest of each, and the accused rank + 1. Stages of other
// ranks are filled with what loses every comparison.
void SlowRankWatch::fill(std::span<double> values) const {
  constexpr double kNothing = -1e300;
  for (double& value : values) value = kNothing;
  const auto stages = static_cast<std::size_t>(stages_), mine = static_cast<std::size_t>(stage_);
  values[mine] = own_;
  values[stages + mine] = -own_;
  values[2 * stages] = accuses_itself_ ? rank_ + 1.0 : 0.0;
}

std::optional<int> SlowRankWatch::judge(std::span<const double> values) {
  const auto stages = static_cast<std::size_t>(stages_), mine = static_cast<std::size_t>(stage_);
  const double longest = values[mine], shortest = -values[stages + mine];
  accuses_itself_ = steps_ >= kWarmup && own_ >= longest && longest > kRatio * shortest && longest - shortest > kLeast;
  if (values[2 * stages] < 1.0) return std::nullopt;
  return static_cast<int>(values[2 * stages]) - 1;
}

std::optional<SlowRank> SlowRankWatch::confirm(int rank, int stage, std::span<const double> values) {
  const auto named = named_.find(rank);
  if (named != named_.end() && steps_ - named->second < kSilence) return std::nullopt;
  named_[rank] = steps_;
  const auto at = static_cast<std::size_t>(stage);
  return SlowRank{rank, values[at], -values[static_cast<std::size_t>(stages_) + at]};
}

}  // namespace railyard
