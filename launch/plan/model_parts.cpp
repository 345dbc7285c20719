// Builds one layer of each kind.
#include "launch/plan/model_parts.hpp"

#include "runtime/model/rank_model.hpp"
#include "runtime/parallel/stages.hpp"
#include "runtime/train/trainer.hpp"

namespace railyard::launch {

bool ModelParts::is_wide(std::int64_t layer) const {
  return wide_block && (layer < shape.first_last_wide || layer >= shape.spec.layers - shape.first_last_wide);
}

ModelParts model_parts(const JobSpec& job, const Layout& layout) {
  // A model of as few layers as have one of each kind, on a rank that holds it whole.
  JobSpec small = job;
  const std::int64_t ends = job.train.precision == "fp8" ? job.train.fp8.first_last_bf16 : 0;
  const bool has_wide = ends > 0;
  small.model.layers = has_wide ? 3 : 1;
  small.train.fp8.first_last_bf16 = has_wide ? 1 : 0;
  small.parallel.first_stage_layers = small.parallel.last_stage_layers = 0;
  Layout whole = layout;
  whole.pp = whole.vpp = 1;
  RankModelOptions options;
  options.dtype = compute_dtype(job.train.precision);
  RankModel model = RankModel::make(small, whole, {}, schedule_1f1b(1, 1), options);
  ModelParts parts;
  parts.shape = model.shape;
  parts.shape.spec = job.model;
  parts.shape.first_last_wide = ends;
  auto& layers = model.chunks.front();
  parts.embedding = std::move(layers.front());
  parts.head = std::move(layers.back());
  if (has_wide) parts.wide_block = std::move(layers[1]);
  parts.block = std::move(layers[has_wide ? 2 : 1]);
  return parts;
}

double parameter_elements(const Layer& layer) {
  double elements = 0.0;
  for (const ParameterSpec& spec : layer.inventory().parameters) elements += static_cast<double>(spec.elements());
  return elements;
}

std::vector<std::int64_t> blocks_by_piece(const JobSpec& job, const Layout& layout) {
  std::vector<std::int64_t> blocks;
  for (const LayerRange& range : split_layers(job.model.layers, layout.pp * layout.vpp, job.parallel.first_stage_layers,
                                              job.parallel.last_stage_layers))
    blocks.push_back(range.end - range.begin);
  return blocks;
}

}  // namespace railyard::launch
