// The CPU backend's norms, attention, activations and dropout: shapes checked, kernels called.
#include "runtime/compute/cpu/cpu_backend.hpp"

namespace railyard::cpu {
namespace {

float weight_offset(NormKind kind) { return kind == NormKind::kLayerNorm1p ? 1.0F : 0.0F; }

Mask mask_of(const Dropout& dropout, std::int64_t rows) {
  if (dropout.probability <= 0.0F) return {};
  RAILYARD_CHECK(dropout.probability < 1.0F, "dropout {}", dropout.probability);
  RAILYARD_CHECK(dropout.sample_ids.dtype == DType::kInt64 && dropout.positions.dtype == DType::kInt32, "dropout");
  RAILYARD_CHECK(dropout.sample_ids.elements() == rows && dropout.positions.elements() == rows, "dropout of {} rows",
                 rows);
  return {dropout.probability, dropout.key, dropout.sample_ids.as<std::int64_t>(), dropout.positions.as<std::int32_t>(),
          dropout.first_head};
}

Heads heads_of(const AttentionShape& s) {
  RAILYARD_CHECK(s.kv_heads > 0 && s.q_heads % s.kv_heads == 0, "{} heads, {} key heads", s.q_heads, s.kv_heads);
  return {s.batch, s.length, s.q_heads, s.kv_heads,         s.d_qk,
          s.d_v,   s.window, s.scale,   s.packed_columns(), s.output_columns()};
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
  RAILYARD_CHECK(false, "activation {}", static_cast<int>(kind));
  return Curve::kGelu;
}

}  // namespace

void CpuBackend::norm_forward(NormKind kind, const Tensor& x, const Tensor& weight, const Tensor& bias, float epsilon,
                              const Tensor& y, const Tensor& mean, const Tensor& rstd) {
  RAILYARD_CHECK(y.elements() == x.elements() && weight.elements() == x.columns() && rstd.elements() == x.rows(),
                 "norm");
  RAILYARD_CHECK(weight.dtype == x.dtype && y.dtype == x.dtype && (!bias.defined() || bias.dtype == x.dtype), "norm");
  const bool center = kind != NormKind::kRmsNorm;
  RAILYARD_CHECK(!center || mean.elements() == x.rows(), "norm");
  kernels_.norm_forward({threads_, x.dtype, center, weight_offset(kind), x.rows(), x.columns(), epsilon, x.data,
                         weight.data, bias.data, y.data, mean.as<float>(), rstd.as<float>()});
}

void CpuBackend::norm_backward(NormKind kind, const Tensor& grad_y, const Tensor& x, const Tensor& weight,
                               const Tensor& mean, const Tensor& rstd, const Tensor& addend, const Tensor& grad_x,
                               const Tensor& grad_weight, const Tensor& grad_bias) {
  RAILYARD_CHECK(grad_y.elements() == x.elements() && grad_x.elements() == x.elements(), "norm");
  RAILYARD_CHECK(!addend.defined() || addend.elements() == x.elements(), "norm");
  kernels_.norm_backward({threads_, x.dtype, kind != NormKind::kRmsNorm, weight_offset(kind), x.rows(), x.columns(),
                          grad_y.data, x.data, weight.data, addend.data, mean.as<float>(), rstd.as<float>(),
                          grad_x.data, grad_weight.as<float>(), grad_bias.as<float>(),
                          scratch(sum_blocks(x.rows()) * 2 * x.columns())});
}

void CpuBackend::head_norm_forward(const AttentionShape& shape, const Tensor& packed, const Tensor& q_weight,
                                   const Tensor& k_weight, float epsilon, const Tensor& raw, const Tensor& rstd) {
  check_head_norm(shape, packed, q_weight, k_weight, raw, rstd);
  kernels_.head_norm_forward({threads_, packed.dtype, heads_of(shape), epsilon, packed.data, raw.data, q_weight.data,
                              k_weight.data, rstd.as<float>(), nullptr, nullptr, nullptr});
}

void CpuBackend::head_norm_backward(const AttentionShape& shape, const Tensor& grad_packed, const Tensor& raw,
                                    const Tensor& q_weight, const Tensor& k_weight, const Tensor& rstd,
                                    const Tensor& grad_q_weight, const Tensor& grad_k_weight) {
  check_head_norm(shape, grad_packed, q_weight, k_weight, raw, rstd);
  RAILYARD_CHECK(grad_q_weight.elements() == shape.d_qk && grad_k_weight.elements() == shape.d_qk, "head norm");
  kernels_.head_norm_backward({threads_, grad_packed.dtype, heads_of(shape), 0.0F, grad_packed.data, raw.data,
                               q_weight.data, k_weight.data, rstd.as<float>(), grad_q_weight.as<float>(),
                               grad_k_weight.as<float>(),
                               scratch(sum_blocks(shape.batch * shape.length) * 2 * shape.d_qk)});
}

void CpuBackend::rope(const Tensor& packed, const AttentionShape& shape, const Tensor& positions, const Tensor& cosine,
                      const Tensor& sine, bool inverse) {
  const std::int64_t tokens = shape.batch * shape.length;
  RAILYARD_CHECK(packed.elements() == tokens * shape.packed_columns() && positions.elements() == tokens, "rope");
  RAILYARD_CHECK(2 * cosine.columns() <= shape.d_qk && sine.columns() == cosine.columns(), "rope");
  kernels_.rope({threads_, packed.dtype, heads_of(shape), packed.data, positions.as<std::int32_t>(), cosine.as<float>(),
                 sine.as<float>(), cosine.columns(), inverse});
}

std::size_t CpuBackend::attention_workspace(const AttentionShape& shape, DType, bool backward) const {
  return kernels_.attention_workspace(heads_of(shape), threads_, backward);
}

void CpuBackend::attention_forward(const AttentionShape& shape, const Tensor& packed, const Dropout& dropout,
                                   const Tensor& first_keys, const Tensor& out, const Tensor& log_sum_exp,
                                   const Tensor& workspace) {
  const std::int64_t tokens = shape.batch * shape.length;
  RAILYARD_CHECK(
      packed.elements() == tokens * shape.packed_columns() && out.elements() == tokens * shape.output_columns(),
      "attention");
  RAILYARD_CHECK(log_sum_exp.elements() == tokens * shape.q_heads, "attention");
  RAILYARD_CHECK(!first_keys.defined() || first_keys.elements() == tokens, "attention");
  RAILYARD_CHECK(workspace.bytes() >= attention_workspace(shape, packed.dtype, false), "attention workspace");
  kernels_.attention_forward({threads_, packed.dtype, heads_of(shape), mask_of(dropout, tokens),
                              first_keys.as<std::int32_t>(), packed.data, nullptr, nullptr, out.data, nullptr,
                              log_sum_exp.as<float>(), workspace.as<float>()});
}

void CpuBackend::attention_backward(const AttentionShape& shape, const Tensor& packed, const Tensor& out,
                                    const Tensor& log_sum_exp, const Tensor& grad_out, const Dropout& dropout,
                                    const Tensor& first_keys, const Tensor& grad_packed, const Tensor& workspace) {
  const std::int64_t tokens = shape.batch * shape.length;
  RAILYARD_CHECK(
      grad_packed.elements() == tokens * shape.packed_columns() && packed.elements() == grad_packed.elements(),
      "attention");
  RAILYARD_CHECK(out.elements() == tokens * shape.output_columns() && grad_out.elements() == out.elements(),
                 "attention");
  RAILYARD_CHECK(workspace.bytes() >= attention_workspace(shape, packed.dtype, true), "attention workspace");
  kernels_.attention_backward({threads_, packed.dtype, heads_of(shape), mask_of(dropout, tokens),
                               first_keys.as<std::int32_t>(), packed.data, out.data, grad_out.data, nullptr,
                               grad_packed.data, log_sum_exp.as<float>(), workspace.as<float>()});
}

void CpuBackend::activation_forward(Activation kind, const Tensor& u, const Tensor& s) {
  RAILYARD_CHECK(u.elements() == (is_gated(kind) ? 2 : 1) * s.elements() && u.dtype == s.dtype, "activation");
  kernels_.activation_forward(
      {threads_, u.dtype, curve_of(kind), is_gated(kind), s.rows(), s.columns(), u.data, s.data, nullptr, nullptr});
}

void CpuBackend::activation_backward(Activation kind, const Tensor& u, const Tensor& grad_s, const Tensor& grad_u,
                                     const Tensor& s) {
  RAILYARD_CHECK(u.elements() == (is_gated(kind) ? 2 : 1) * grad_s.elements() && grad_u.elements() == u.elements(),
                 "activation");
  kernels_.activation_backward({threads_, u.dtype, curve_of(kind), is_gated(kind), grad_s.rows(), grad_s.columns(),
                                u.data, s.data, grad_s.data, grad_u.data});
}

void CpuBackend::residual_add(const Tensor& x, const Tensor& bias, const Dropout& dropout, const Tensor& residual,
                              const Tensor& out) {
  RAILYARD_CHECK(x.elements() == out.elements() && residual.elements() == out.elements(), "residual_add");
  RAILYARD_CHECK(!bias.defined() || (bias.elements() == x.columns() && bias.dtype == x.dtype), "residual_add");
  kernels_.residual_add({threads_, x.dtype, x.rows(), x.columns(), x.data, bias.data, residual.data,
                         mask_of(dropout, x.rows()), out.data});
}

void CpuBackend::dropout(const Tensor& x, const Dropout& dropout, const Tensor& out) {
  RAILYARD_CHECK(x.elements() == out.elements() && x.dtype == out.dtype, "dropout");
  kernels_.residual_add(
      {threads_, x.dtype, x.rows(), x.columns(), x.data, nullptr, nullptr, mask_of(dropout, x.rows()), out.data});
}

}  // namespace railyard::cpu
