// Finds a rank whose own part of a step (without waiting for others) is persistently longer than that of its peers:
// the others only wait for it, so step times alone cannot name it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace railyard {

struct SlowRank {
  int rank = 0;
  double own_s = 0.0;      // its own part of a step, smoothed
  double fastest_s = 0.0;  // that of the fastest rank of the same stage
};

// Fed once a step on every rank. What must be known of all ranks travels in `values()` by one maximum over the world,
// which the step makes anyway; an accusation therefore comes one step late.
class SlowRankWatch {
 public:
  // `stages` pipeline stages do different work, so ranks are compared within theirs (`stage`).
  SlowRankWatch(int rank, int stages, int stage);

  // Before the exchange: this rank's own seconds of the step.
  void add(double own_seconds);
  [[nodiscard]] std::size_t size() const { return 2 * static_cast<std::size_t>(stages_) + 1; }
  // Writes this rank's share into `values` (size() numbers), to be reduced by maximum over the world.
  void fill(std::span<double> values) const;
  // After the exchange. On every rank the same answer: a rank to name, at most once in `kSilence` steps for each.
  // `stage_of(rank)` is the stage of a rank.
  template <class StageOf>
  std::optional<SlowRank> take(std::span<const double> values, const StageOf& stage_of) {
    const auto accused = judge(values);
    if (!accused) return std::nullopt;
    return confirm(*accused, stage_of(*accused), values);
  }

  static constexpr double kRatio = 1.5;      // times the fastest
  static constexpr double kLeast = 0.01;     // seconds: shorter differences are noise, or what rank 0 reports
  static constexpr int kWarmup = 30;         // steps before anything is said
  static constexpr int kSilence = 1000;      // steps before a rank is named again
  static constexpr double kSmoothing = 0.1;  // weight of the newest step

 private:
  // The rank that was accused in the exchange; also decides whether this one accuses itself in the next.
  std::optional<int> judge(std::span<const double> values);
  std::optional<SlowRank> confirm(int rank, int stage, std::span<const double> values);

  int rank_, stages_, stage_;
  std::int64_t steps_ = 0;
  double own_ = 0.0;
  bool accuses_itself_ = false;
  std::map<int, std::int64_t> named_;  // rank -> step
};

}  // namespace railyard
