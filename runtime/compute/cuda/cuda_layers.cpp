// The CUDA backend's norms, attention, activations, dropout, embedding and loss: shapes checked, kernels launched.
#include <algorithm>

#include "runtime/compute/cuda/cuda_backend.hpp"

namespace railyard::cuda {
namespace {

Mask mask_of(const Dropout& dropout, std::int64_t rows) {
  if (dropout.probability <= 0.0F) return {};
  RAILYARD_CHECK(dropout.probability < 1.0F, "dropout {}", dropout.probability);
  RAILYARD_CHECK(dropout.sample_ids.dtype == DType::kInt64 && dropout.positions.dtype == DType::kInt32, "dropout");
  RAILYARD_CHECK(dropout.sample_ids.elements() == rows && dropout.positions.elements() == rows, "dropout of {} rows",
                 rows);
  return {dropout.probability, dropout.key, dropout.sample_ids.as<std::int64_t>(), dropout.positions.as<std::int32_t>(),
          dropout.first_head};
}

NormShape norm_shape(NormKind kind, const Tensor& x) {
  const NormShape shape{x.dtype, kind != NormKind::kRmsNorm, kind == NormKind::kLayerNorm1p ? 1.0F : 0.0F, x.rows(),
                        x.columns()};
  if (!norm_supported(shape))
    throw UsageError(
        "hidden = {}: a norm of this width is not built yet on GPUs; take a multiple of 8 up to 32768 (fp32: of 4 up "
        "to 16384)",
        x.columns());
  return shape;
}

Curve curve_of(Activation kind) {
  switch (kind) {
    case Activation::kGelu:
    case Activation::kGeglu:
      return Curve::kGelu;
    case Activation::kGeluTanh:
      return Curve::kGeluTanh;
    case Activation::kSwiglu:
      return Curve::kSilu;
    case Activation::kSquaredRelu:
      return Curve::kSquaredRelu;
  }
  check_failed("kind", __FILE__, __LINE__, fmt::format("activation {}", static_cast<int>(kind)));
}

Heads heads_of(const AttentionShape& s, const Tensor& first_keys = {}) {
  RAILYARD_CHECK(s.kv_heads > 0 && s.q_heads % s.kv_heads == 0, "{} heads, {} key heads", s.q_heads, s.kv_heads);
  if (s.d_qk > kPlainHeadLimit || s.d_v > kPlainHeadLimit)
    throw UsageError("head_dim = {}: heads wider than {} are not built yet on GPUs", std::max(s.d_qk, s.d_v),
                     kPlainHeadLimit);
  return {s.batch, s.length, s.q_heads, s.kv_heads, s.d_qk, s.d_v, s.window, s.scale, first_keys.as<std::int32_t>()};
}

std::size_t plain_workspace(const AttentionShape& s, bool backward) {
  return backward ? static_cast<std::size_t>(s.batch * s.length * s.q_heads) * sizeof(float) : 0;
}

Logits logits_of(const Tensor& logits, std::int64_t valid, const Tensor& labels, std::int64_t first_column) {
  RAILYARD_CHECK(valid >= 0 && valid <= logits.columns() && labels.elements() == logits.rows(), "logits");
  return {logits.dtype, logits.rows(), logits.columns(), valid, first_column, labels.as<std::int32_t>()};
}

std::size_t floats(std::int64_t count) { return static_cast<std::size_t>(count) * sizeof(float); }

}  // namespace

void CudaBackend::bias_gradient(const Tensor& grad, const Tensor& grad_bias) {
  RAILYARD_CHECK(grad_bias.dtype == DType::kFloat32 && grad_bias.elements() == grad.columns(), "bias_gradient");
  const std::int64_t rows = grad.rows(), columns = grad.columns();
  column_sum(target(), grad.dtype, grad.data, grad_bias.as<float>(), rows, columns,
             static_cast<float*>(scratch(floats(column_sum_scratch(rows, columns)))));
}

void CudaBackend::norm_forward(NormKind kind, const Tensor& x, const Tensor& weight, const Tensor& bias, float epsilon,
                               const Tensor& y, const Tensor& mean, const Tensor& rstd) {
  const NormShape shape = norm_shape(kind, x);
  RAILYARD_CHECK(y.elements() == x.elements() && weight.elements() == x.columns() && rstd.elements() == x.rows(),
                 "norm");
  RAILYARD_CHECK(weight.dtype == x.dtype && y.dtype == x.dtype && (!bias.defined() || bias.dtype == x.dtype), "norm");
  RAILYARD_CHECK(!shape.center || mean.elements() == x.rows(), "norm");
  cuda::norm_forward(target(), shape, x.data, weight.data, bias.data, epsilon, y.data, mean.as<float>(),
                     rstd.as<float>());
}

void CudaBackend::norm_backward(NormKind kind, const Tensor& grad_y, const Tensor& x, const Tensor& weight,
                                const Tensor& mean, const Tensor& rstd, const Tensor& addend, const Tensor& grad_x,
                                const Tensor& grad_weight, const Tensor& grad_bias) {
  const NormShape shape = norm_shape(kind, x);
  RAILYARD_CHECK(grad_y.elements() == x.elements() && grad_x.elements() == x.elements(), "norm");
  RAILYARD_CHECK(!addend.defined() || addend.elements() == x.elements(), "norm");
  cuda::norm_backward(target(), shape, grad_y.data, x.data, weight.data, mean.as<float>(), rstd.as<float>(),
                      addend.data, grad_x.data, grad_weight.as<float>(), grad_bias.as<float>(),
                      static_cast<float*>(scratch(floats(norm_backward_scratch(target(), shape)))));
}

void CudaBackend::head_norm_forward(const AttentionShape& shape, const Tensor& packed, const Tensor& q_weight,
                                    const Tensor& k_weight, float epsilon, const Tensor& raw, const Tensor& rstd) {
  check_head_norm(shape, packed, q_weight, k_weight, raw, rstd);
  cuda::head_norm_forward(target(), packed.dtype, heads_of(shape), packed.data, q_weight.data, k_weight.data, epsilon,
                          raw.data, rstd.as<float>());
}

void CudaBackend::head_norm_backward(const AttentionShape& shape, const Tensor& grad_packed, const Tensor& raw,
                                     const Tensor& q_weight, const Tensor& k_weight, const Tensor& rstd,
                                     const Tensor& grad_q_weight, const Tensor& grad_k_weight) {
  check_head_norm(shape, grad_packed, q_weight, k_weight, raw, rstd);
  RAILYARD_CHECK(grad_q_weight.elements() == shape.d_qk && grad_k_weight.elements() == shape.d_qk, "head norm");
  const Heads heads = heads_of(shape);
  cuda::head_norm_backward(target(), grad_packed.dtype, heads, grad_packed.data, raw.data, q_weight.data, k_weight.data,
                           rstd.as<float>(), grad_q_weight.as<float>(), grad_k_weight.as<float>(),
                           static_cast<float*>(scratch(floats(head_norm_backward_scratch(target(), heads)))));
}

void CudaBackend::rope(const Tensor& packed, const AttentionShape& s, const Tensor& positions, const Tensor& cosine,
                       const Tensor& sine, bool inverse) {
  const std::int64_t tokens = s.batch * s.length;
  RAILYARD_CHECK(packed.elements() == tokens * s.packed_columns() && positions.elements() == tokens, "rope");
  RAILYARD_CHECK(2 * cosine.columns() <= s.d_qk && sine.columns() == cosine.columns(), "rope");
  cuda::rope(target(), packed.dtype, packed.data, tokens, s.packed_columns(), s.q_heads + s.kv_heads, s.d_qk,
             positions.as<std::int32_t>(), cosine.as<float>(), sine.as<float>(), cosine.columns(), inverse);
}

FusedAttention* CudaBackend::fused_attention(const AttentionShape& shape, DType type, float dropout) const {
  if (dropout > 0.0F || type != DType::kBFloat16) return nullptr;
  if (!fused_attention_opened_) {
    fused_attention_ = open_fused_attention(deterministic_, memory_total_ / 16);
    fused_attention_opened_ = true;
  }
  // Forward and backward go together: their log-sum-exp agrees then.
  const bool able = fused_attention_ != nullptr && fused_attention_->workspace(shape, type, false).has_value() &&
                    fused_attention_->workspace(shape, type, true).has_value();
  return able ? fused_attention_.get() : nullptr;
}

std::size_t CudaBackend::attention_workspace(const AttentionShape& shape, DType dtype, bool backward) const {
  std::size_t bytes = plain_workspace(shape, backward);
  if (FusedAttention* fused = fused_attention(shape, dtype, 0.0F))
    bytes = std::max(bytes, *fused->workspace(shape, dtype, backward));
  return bytes;
}

void CudaBackend::attention_forward(const AttentionShape& shape, const Tensor& packed, const Dropout& dropout,
                                    const Tensor& first_keys, const Tensor& out, const Tensor& log_sum_exp,
                                    const Tensor& workspace) {
  const std::int64_t tokens = shape.batch * shape.length;
  RAILYARD_CHECK(packed.elements() == tokens * shape.packed_columns() &&
                     out.elements() == tokens * shape.output_columns() &&
                     log_sum_exp.elements() == tokens * shape.q_heads &&
                     (!first_keys.defined() || first_keys.elements() == tokens),
                 "attention");
  if (tokens == 0) return;
  FusedAttention* fused = first_keys.defined() ? nullptr : fused_attention(shape, packed.dtype, dropout.probability);
  if (fused != nullptr) return fused->forward(shape, packed, out, log_sum_exp, workspace, stream_.get());
  plain_attention_forward(target(), packed.dtype, heads_of(shape, first_keys), packed.data, mask_of(dropout, tokens),
                          out.data, log_sum_exp.as<float>());
}

void CudaBackend::attention_backward(const AttentionShape& shape, const Tensor& packed, const Tensor& out,
                                     const Tensor& log_sum_exp, const Tensor& grad_out, const Dropout& dropout,
                                     const Tensor& first_keys, const Tensor& grad_packed, const Tensor& workspace) {
  const std::int64_t tokens = shape.batch * shape.length;
  RAILYARD_CHECK(
      grad_packed.elements() == tokens * shape.packed_columns() && packed.elements() == grad_packed.elements(),
      "attention");
  RAILYARD_CHECK(out.elements() == tokens * shape.output_columns() && grad_out.elements() == out.elements(),
                 "attention");
  if (tokens == 0) return;
  FusedAttention* fused = first_keys.defined() ? nullptr : fused_attention(shape, packed.dtype, dropout.probability);
  if (fused != nullptr)
    return fused->backward(shape, packed, out, log_sum_exp, grad_out, grad_packed, workspace, stream_.get());
  RAILYARD_CHECK(workspace.bytes() >= plain_workspace(shape, true), "attention workspace");
  plain_attention_backward(target(), packed.dtype, heads_of(shape, first_keys), packed.data, out.data,
                           log_sum_exp.as<float>(), grad_out.data, mask_of(dropout, tokens), grad_packed.data,
                           workspace.as<float>());
}

void CudaBackend::activation_forward(Activation kind, const Tensor& u, const Tensor& s) {
  RAILYARD_CHECK(u.elements() == (is_gated(kind) ? 2 : 1) * s.elements() && u.dtype == s.dtype, "activation");
  cuda::activation_forward(target(), u.dtype, curve_of(kind), is_gated(kind), s.rows(), s.columns(), u.data, s.data);
}

void CudaBackend::activation_backward(Activation kind, const Tensor& u, const Tensor& grad_s, const Tensor& grad_u,
                                      const Tensor& s) {
  RAILYARD_CHECK(u.elements() == (is_gated(kind) ? 2 : 1) * grad_s.elements() && grad_u.elements() == u.elements(),
                 "activation");
  cuda::activation_backward(target(), u.dtype, curve_of(kind), is_gated(kind), grad_s.rows(), grad_s.columns(), u.data,
                            grad_s.data, grad_u.data, s.data);
}

void CudaBackend::residual_add(const Tensor& x, const Tensor& bias, const Dropout& dropout, const Tensor& residual,
                               const Tensor& out) {
  RAILYARD_CHECK(x.elements() == out.elements() && residual.elements() == out.elements(), "residual_add");
  RAILYARD_CHECK(!bias.defined() || (bias.elements() == x.columns() && bias.dtype == x.dtype), "residual_add");
  cuda::residual_add(target(), x.dtype, x.rows(), x.columns(), x.data, bias.data, residual.data,
                     mask_of(dropout, x.rows()), out.data);
}

void CudaBackend::dropout(const Tensor& x, const Dropout& dropout, const Tensor& out) {
  RAILYARD_CHECK(x.elements() == out.elements() && x.dtype == out.dtype, "dropout");
  cuda::residual_add(target(), x.dtype, x.rows(), x.columns(), x.data, nullptr, nullptr, mask_of(dropout, x.rows()),
                     out.data);
}

void CudaBackend::embedding_forward(const Tensor& ids, const Tensor& table, std::int64_t first_row, bool accumulate,
                                    const Tensor& out) {
  RAILYARD_CHECK(out.rows() == ids.elements() && out.columns() == table.columns() && out.dtype == table.dtype,
                 "embedding");
  cuda::embedding_forward(target(), out.dtype, ids.as<std::int32_t>(), ids.elements(), out.columns(), table.data,
                          first_row, table.rows(), accumulate, out.data);
}

void CudaBackend::embedding_backward(const Tensor& ids, const Tensor& grad_out, std::int64_t first_row,
                                     const Tensor& grad_table) {
  RAILYARD_CHECK(grad_out.rows() == ids.elements() && grad_out.columns() == grad_table.columns(), "embedding");
  RAILYARD_CHECK(grad_table.dtype == DType::kFloat32, "embedding");
  const std::size_t bytes = embedding_backward_scratch(ids.elements(), grad_table.columns(), grad_table.rows());
  cuda::embedding_backward(target(), grad_out.dtype, ids.as<std::int32_t>(), ids.elements(), grad_out.columns(),
                           grad_out.data, first_row, grad_table.rows(), grad_table.as<float>(), scratch(bytes), bytes);
}

void CudaBackend::softmax_statistics(const Tensor& logits, std::int64_t valid, const Tensor& labels,
                                     std::int64_t first_column, const Tensor& statistics) {
  RAILYARD_CHECK(statistics.elements() == 3 * logits.rows(), "softmax_statistics");
  cuda::softmax_statistics(target(), logits_of(logits, valid, labels, first_column), logits.data,
                           statistics.as<float>());
}

void CudaBackend::combine_statistics(const Tensor& parts, const Tensor& weights, const Tensor& log_sum_exp,
                                     const Tensor& loss) {
  const std::int64_t rows = weights.elements(), ranks = rows == 0 ? 0 : parts.elements() / (3 * rows);
  RAILYARD_CHECK(parts.elements() == 3 * rows * ranks && log_sum_exp.elements() == rows, "combine_statistics");
  RAILYARD_CHECK(loss.dtype == DType::kFloat64, "combine_statistics");
  cuda::combine_statistics(target(), parts.as<float>(), ranks, rows, weights.as<float>(), log_sum_exp.as<float>(),
                           loss.as<double>());
}

void CudaBackend::cross_entropy_gradient(const Tensor& logits, std::int64_t valid, const Tensor& labels,
                                         std::int64_t first_column, const Tensor& log_sum_exp, const Tensor& weights,
                                         float factor) {
  cuda::cross_entropy_gradient(target(), logits_of(logits, valid, labels, first_column), logits.data,
                               log_sum_exp.as<float>(), weights.as<float>(), factor);
}

}  // namespace railyard::cuda
