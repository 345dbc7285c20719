// Builds the layers of a rank.
#include "runtime/model/rank_model.hpp"

#include "runtime/model/embedding.hpp"
#include "runtime/model/output_head.hpp"
#include "runtime/model/transformer_block.hpp"
#include "runtime/parallel/stages.hpp"

namespace railyard {

MemoryTarget MemoryTarget::of(const Backend& backend) {
  return {backend.is_host_memory(), [&backend](const AttentionShape& shape, DType dtype, bool backward) {
            return backend.attention_workspace(shape, dtype, backward);
          }};
}

RankModel RankModel::make(const JobSpec& job, const Layout& layout, const Coordinate& at, const Schedule& schedule,
                          const RankModelOptions& options) {
  RankModel model;
  model.shape =
      ModelShape::make(job.model, options.dtype, job.train.micro_batch, layout.tp, at.tp, layout.sequence_parallel);
  model.shape.seed = options.seed;
  model.shape.documents_apart = job.data.reset_attention_mask;
  if (job.train.precision == "fp8") {
    const std::string& recipe = job.train.fp8.recipe;
    model.shape.fp8 = recipe == "delayed" ? Fp8Recipe::kDelayed
                      : recipe == "block" ? Fp8Recipe::kBlock
                                          : Fp8Recipe::kCurrent;
    model.shape.amax_history = job.train.fp8.amax_history;
    if (layout.sequence_parallel)
      throw UsageError("train.precision: \"fp8\" with parallel.sequence_parallel: not built yet");
    for (const std::int64_t extent :
         {job.model.hidden, job.model.ffn / layout.tp, job.model.heads * job.model.head_dim / layout.tp,
          job.model.kv_heads * job.model.head_dim / layout.tp, model.shape.tokens()})
      if (extent % 16 != 0)
        throw UsageError(
            "train.precision: \"fp8\" needs hidden, ffn / tp, heads x head_dim / tp and micro_batch x seq_length to be "
            "multiples of 16; one is {}",
            extent);
    model.shape.first_last_wide = job.train.fp8.first_last_bf16;
  }
  if (options.target.attention_workspace) {
    const AttentionShape attention = model.shape.attention();
    model.shape.attention_workspace_forward = options.target.attention_workspace(attention, options.dtype, false);
    model.shape.attention_workspace_backward = options.target.attention_workspace(attention, options.dtype, true);
  }
  const int pieces = static_cast<int>(schedule.pieces.size());
  const auto ranges =
      split_layers(job.model.layers, pieces, job.parallel.first_stage_layers, job.parallel.last_stage_layers);
  for (int chunk = 0; chunk < schedule.chunks; ++chunk) {
    const int piece = schedule.virtual_stage(at.pp, chunk);
    model.has_embedding |= piece == 0;
    model.has_head |= piece == pieces - 1;
  }
  for (int chunk = 0; chunk < schedule.chunks; ++chunk) {
    const int piece = schedule.virtual_stage(at.pp, chunk);
    auto& layers = model.chunks.emplace_back();
    if (piece == 0) layers.push_back(make_embedding(model.shape));
    const LayerRange range = ranges[static_cast<size_t>(piece)];
    for (std::int64_t index = range.begin; index < range.end; ++index)
      layers.push_back(make_transformer_block(model.shape, index));
    if (piece == pieces - 1)
      layers.push_back(make_output_head(
          model.shape,
          {.tied_here = model.tied_here(), .chunk_bytes = std::int64_t{options.target.host ? 64 : 512} << 20}));
  }
  return model;
}

double training_flops(const ModelSpec& model, std::int64_t sequences) {
  // The layers of a rank that holds everything, unpadded.
  ModelSpec whole = model;
  whole.vocab_divisible_by = 1;
  const ModelShape shape = ModelShape::make(whole, DType::kFloat32, 1, 1, 0, false);
  const auto block = make_transformer_block(shape, 0);
  const auto head = make_output_head(shape, {.chunk_bytes = 1});
  const double layer = block->inventory().matmul_flops + block->inventory().attention_flops;
  const double forward = static_cast<double>(model.layers) * layer + head->inventory().matmul_flops;
  return 3.0 * forward * static_cast<double>(sequences);
}

}  // namespace railyard
