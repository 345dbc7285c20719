// Communication volumes of a layout.
#include "launch/plan/volume.hpp"

#include <algorithm>

#include "runtime/model/rank_model.hpp"
#include "runtime/train/trainer.hpp"

namespace railyard::launch {
namespace {

RankModel model_of(const JobSpec& job, const Layout& layout, int stage) {
  Coordinate at;
  at.pp = stage;
  RankModelOptions options;
  options.dtype = compute_dtype(job.train.precision);
  return RankModel::make(job, layout, at, make_schedule(job, layout), options);
}

double parameters_of(const RankModel& model) {
  double elements = 0.0;
  for (const auto& chunk : model.chunks)
    for (const auto& layer : chunk)
      for (const ParameterSpec& spec : layer->inventory().parameters) elements += static_cast<double>(spec.elements());
  return elements;
}

}  // namespace

double stage_parameters(const JobSpec& job, const Layout& layout, int stage) {
  return parameters_of(model_of(job, layout, stage));
}

AxisBytes axis_bytes(const JobSpec& job, const Layout& layout) {
  AxisBytes bytes;
  const auto width = static_cast<double>(dtype_size(compute_dtype(job.train.precision)));
  const double microbatches = make_schedule(job, layout).microbatches;
  for (int stage = 0; stage < layout.pp; ++stage) {
    const RankModel model = model_of(job, layout, stage);
    const double whole =
        static_cast<double>(model.shape.tokens() * model.shape.spec.hidden) * width;  // one activation of all tokens
    const double ring = static_cast<double>(layout.tp - 1) / layout.tp;
    // Each block has two pairs of gather and scatter (an all-reduce is one of each) forward and backward; sequence
    // parallelism gathers each layer's input once more for its weight gradient.
    double passes = 0.0;
    for (const auto& chunk : model.chunks) {
      for (const auto& layer : chunk) {
        if (layer->name() == "embedding" || layer->name() == "output") {
          passes += 2.0;  // its output summed forward, its input's gradient backward
        } else {
          passes += layout.sequence_parallel ? 10.0 : 8.0;
        }
      }
    }
    if (layout.tp > 1) bytes.tp = std::max(bytes.tp, passes * whole * ring * microbatches);
    const int replicas = layout.dp * layout.cp;
    const double share = static_cast<double>(replicas - 1) / replicas;
    const double elements = parameters_of(model);
    const bool sharded = job.train.optimizer.distributed;
    if (replicas > 1) bytes.dp = std::max(bytes.dp, elements * share * (sharded ? 4.0 + width : 8.0));
    if (layout.pp > 1) {
      const double local = static_cast<double>(model.shape.local_tokens() * model.shape.spec.hidden) * width;
      const int neighbours = (stage > 0 || layout.vpp > 1) + (stage + 1 < layout.pp || layout.vpp > 1);
      bytes.pp = std::max(bytes.pp, local * microbatches * layout.vpp * neighbours);
    }
  }
  return bytes;
}

}  // namespace railyard::launch
