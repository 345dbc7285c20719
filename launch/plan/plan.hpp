// A layout of a job on a cluster: its memory, its time and what it sends.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/plan/memory.hpp"
#include "launch/plan/step_time.hpp"

namespace railyard::launch {

// What all plans for one cluster share.
class Planner {
 public:
  // `calibration`: the measurements of the cluster's device, where there are any. `threads`: cores of a rank, on CPUs.
  Planner(const Cluster& cluster, std::optional<FoundCalibration> calibration, int threads);

  struct Plan {
    JobSpec job;
    Layout layout;
    MemoryFigures memory;
    std::optional<StepTime> time;  // nullopt: nothing is known of this kind of GPU
    AxisBytes bytes;
  };
  // `job.model.vocab` must be known. UsageError when the layout cannot split the model or the batch.
  [[nodiscard]] Plan plan(const JobSpec& job, const Layout& layout) const;
  [[nodiscard]] Plan plan(const JobSpec& job, const Layout& layout, std::optional<StepTime> time) const;
  // Without memory: the faster of both ways to nest the layout into domains.
  [[nodiscard]] std::optional<StepTime> time(const JobSpec& job, const Layout& layout) const;
  // The time with the ranks where a placement puts them.
  [[nodiscard]] std::optional<StepTime> time(const JobSpec& job, const Layout& layout,
                                             const Placement& placement) const;

  // For a search: seconds that a step takes at least, without its schedule; whether the states of the stage with the
  // most parameters exceed the device.
  [[nodiscard]] double least_time(const JobSpec& job, const Layout& layout) const;
  [[nodiscard]] bool surely_too_large(const JobSpec& job, const Layout& layout) const;

  [[nodiscard]] bool has_rates() const { return rates_.has_value(); }
  [[nodiscard]] const Cluster& cluster() const { return cluster_; }
  [[nodiscard]] int domain() const { return links_.domain(); }
  // What the time rests on without having been measured, one line each, with the remedy.
  [[nodiscard]] std::vector<std::string> unmeasured() const;
  [[nodiscard]] std::string rates_source() const;  // of the time figures, for people

 private:
  [[nodiscard]] std::optional<StepTime> time(const JobSpec& job, const Layout& layout, PipelineTime pipeline) const;

  const Cluster& cluster_;
  std::optional<FoundCalibration> calibration_;
  std::optional<DeviceRates> rates_;
  LinkModel links_;
};

// What is doubtful about a plan, one line each, with the remedy.
[[nodiscard]] std::vector<std::string> plan_warnings(const Planner& planner, const Planner::Plan& plan);

}  // namespace railyard::launch
