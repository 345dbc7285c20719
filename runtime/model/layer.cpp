// Sizes shared by the layers of a rank, and the words of the job for norms and activations.
#include "runtime/model/layer.hpp"

#include <algorithm>
#include <cmath>

namespace railyard {
namespace {

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

void must_divide(const char* key, std::int64_t value, int tp) {
  if (value % tp != 0) throw UsageError("parallel.tp: {} does not divide {} = {}", tp, key, value);
}

}  // namespace

std::int64_t ModelShape::valid_vocab_rows() const {
  return std::clamp<std::int64_t>(spec.vocab - first_vocab_row(), 0, vocab_rows());
}

AttentionShape ModelShape::attention() const {
  AttentionShape shape;
  shape.batch = micro_batch;
  shape.length = spec.seq_length;
  shape.q_heads = spec.heads / tp;
  shape.kv_heads = spec.kv_heads / tp;
  shape.d_qk = shape.d_v = spec.head_dim;
  shape.window = spec.window;
  shape.scale = 1.0F / std::sqrt(static_cast<float>(spec.head_dim));
  return shape;
}

ModelShape ModelShape::make(const ModelSpec& spec, DType dtype, std::int64_t micro_batch, int tp, int tp_rank,
                            bool sequence_parallel) {
  must_divide("model.heads", spec.heads, tp);
  must_divide("model.kv_heads", spec.kv_heads, tp);
  must_divide("model.ffn", spec.ffn, tp);
  if (spec.heads % spec.kv_heads != 0)
    throw UsageError("model.kv_heads: {} does not divide model.heads = {}", spec.kv_heads, spec.heads);
  if (spec.vocab < 1) throw UsageError("model.vocab: {} is not a vocabulary size", spec.vocab);
  if (sequence_parallel && (micro_batch * spec.seq_length) % tp != 0)
    throw UsageError("parallel.sequence_parallel: tp {} does not divide the {} tokens of a microbatch", tp,
                     micro_batch * spec.seq_length);
  ModelShape shape;
  shape.spec = spec;
  shape.dtype = dtype;
  shape.micro_batch = micro_batch;
  shape.tp = tp;
  shape.tp_rank = tp_rank;
  shape.sequence_parallel = sequence_parallel && tp > 1;
  shape.padded_vocab = round_up(spec.vocab, std::max<std::int64_t>(1, spec.vocab_divisible_by) * tp);
  return shape;
}

Tensor Layer::predict(const StepContext& /*context*/, const Tensor& /*input*/, const LayerBuffers& /*buffers*/) {
  RAILYARD_CHECK(false, "layer {} predicts nothing", name());
  return {};
}

NormKind norm_kind(const std::string& name) {
  if (name == "layernorm") return NormKind::kLayerNorm;
  if (name == "rmsnorm") return NormKind::kRmsNorm;
  if (name == "layernorm1p") return NormKind::kLayerNorm1p;
  throw UsageError("model.norm: \"{}\" is not layernorm, rmsnorm or layernorm1p", name);
}

Activation activation_kind(const std::string& name) {
  if (name == "gelu") return Activation::kGelu;
  if (name == "gelu_tanh") return Activation::kGeluTanh;
  if (name == "swiglu") return Activation::kSwiglu;
  if (name == "geglu") return Activation::kGeglu;
  if (name == "squared_relu") return Activation::kSquaredRelu;
  throw UsageError("model.activation: \"{}\" is not gelu, gelu_tanh, swiglu, geglu or squared_relu", name);
}

}  // namespace railyard
