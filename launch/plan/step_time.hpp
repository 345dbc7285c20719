// Predicts the time of a training step: layers from products, attention and memory traffic, the pipeline from its
// schedule, communication from bytes and links, less what runs under computation.
#pragma once

#include "launch/plan/axis_path.hpp"
#include "launch/plan/device_rates.hpp"
#include "launch/plan/model_parts.hpp"
#include "launch/plan/volume.hpp"
#include "runtime/base/job.hpp"
#include "runtime/base/layout.hpp"

namespace railyard::launch {

// Seconds of one microbatch on one rank, without communication.
struct LayerTimes {
  double forward = 0, backward_input = 0, backward_weight = 0;
  [[nodiscard]] double backward() const { return backward_input + backward_weight; }
};
struct ModelTimes {
  LayerTimes block, wide_block, embedding, head;  // the head's products of the backward pass run in its forward
};
[[nodiscard]] ModelTimes model_times(const JobSpec& job, const ModelParts& parts, const DeviceRates& rates);

// The parts of the busiest stage's step: computing (optimizer included), communication that nothing hides, and waiting
// for other stages; their sum is the step.
struct StepTime {
  double step_s = 0, compute_s = 0, exposed_comm_s = 0, bubble_s = 0;
  double tflops_per_gpu = 0;        // model FLOPs, without recomputing
  std::optional<double> mfu;        // of the dense bf16 peak; unknown on a CPU
  double tensor_s = 0, data_s = 0;  // of exposed_comm_s
  double optimizer_s = 0;           // of compute_s
  int busiest_stage = 0;
};
// The pipeline is timed by its schedule, or (for a search) by what no schedule can beat: the busiest stage's work, and
// the way of the first microbatch to it and of the last one back.
enum class PipelineTime { kSchedule, kBound };
[[nodiscard]] StepTime step_time(const JobSpec& job, const Layout& layout, const ModelParts& parts,
                                 const ModelTimes& times, const AxisPaths& paths, const DeviceRates& rates,
                                 PipelineTime pipeline = PipelineTime::kSchedule);

// Seconds from the first to the last row of the layout's schedule when a forward of piece v takes forward[v] and a
// backward backward[v]. Steps of many microbatches repeat themselves: they are extended from two shorter ones.
[[nodiscard]] double schedule_seconds(const Layout& layout, std::int64_t microbatches,
                                      const std::vector<double>& forward, const std::vector<double>& backward,
                                      double transfer);

}  // namespace railyard::launch
