// Learning-rate schedules.
#include "runtime/optim/learning_rate.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "runtime/base/error.hpp"

namespace railyard {

double learning_rate(const LearningRateSpec& spec, std::int64_t step) {
  const std::int64_t iteration = step + 1;
  const std::int64_t warmup =
      spec.warmup > 0 ? spec.warmup
                      : static_cast<std::int64_t>(spec.warmup_fraction * static_cast<double>(spec.decay_iterations));
  if (iteration <= warmup)
    return spec.init + (spec.peak - spec.init) * static_cast<double>(iteration) / static_cast<double>(warmup);
  if (spec.schedule == "constant") return spec.peak;
  if (spec.schedule == "inverse_sqrt") {
    const double start = static_cast<double>(std::max<std::int64_t>(warmup, 1));
    return std::max(spec.min, spec.peak * std::sqrt(start / static_cast<double>(iteration)));
  }
  if (iteration >= spec.decay_iterations) return spec.min;
  if (spec.schedule == "wsd") {
    const std::int64_t begin = spec.decay_iterations - spec.wsd_decay;
    if (iteration <= begin) return spec.peak;
    const double done = static_cast<double>(iteration - begin) / static_cast<double>(spec.wsd_decay);
    return spec.peak + (spec.min - spec.peak) * done;
  }
  const double done = static_cast<double>(iteration - warmup) / static_cast<double>(spec.decay_iterations - warmup);
  if (spec.schedule == "linear") return spec.peak + (spec.min - spec.peak) * done;
  if (spec.schedule == "cosine")
    return spec.min + (spec.peak - spec.min) * 0.5 * (1.0 + std::cos(std::numbers::pi * done));
  throw UsageError("train.lr.schedule: \"{}\" is not cosine, linear, constant, wsd or inverse_sqrt", spec.schedule);
}

}  // namespace railyard
