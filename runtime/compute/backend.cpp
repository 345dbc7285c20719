// The fused pairs of product and communication, one after the other: what a backend that cannot overlap them does.
#include "runtime/compute/backend.hpp"

namespace railyard {

Shape scales_shape(Scaling scaling, std::int64_t rows, std::int64_t columns) {
  const auto blocks = [](std::int64_t count) { return (count + 127) / 128; };
  const auto padded = [](std::int64_t count) { return (count + 3) / 4 * 4; };
  switch (scaling) {
    case Scaling::kTensor:
      return {1};
    case Scaling::kRow128:
      return {blocks(columns), padded(rows)};
    case Scaling::kBlock128:
      return {blocks(rows), padded(blocks(columns))};
  }
  return {1};
}

void check_head_norm(const AttentionShape& shape, const Tensor& packed, const Tensor& q_weight, const Tensor& k_weight,
                     const Tensor& raw, const Tensor& rstd) {
  const std::int64_t tokens = shape.batch * shape.length, heads = shape.q_heads + shape.kv_heads;
  RAILYARD_CHECK(packed.elements() == tokens * shape.packed_columns() && raw.elements() == tokens * heads * shape.d_qk,
                 "head norm");
  RAILYARD_CHECK(q_weight.elements() == shape.d_qk && k_weight.elements() == shape.d_qk, "head norm");
  RAILYARD_CHECK(raw.dtype == packed.dtype && q_weight.dtype == packed.dtype && k_weight.dtype == packed.dtype,
                 "head norm");
  RAILYARD_CHECK(rstd.elements() == tokens * heads && rstd.dtype == DType::kFloat32, "head norm");
}

void Backend::all_gather_gemm(Group& group, const Tensor& part, const Tensor& gathered, const Gemm& arguments) {
  RAILYARD_CHECK(arguments.a.data == gathered.data, "the product must take what was gathered");
  group.all_gather(part, gathered).wait();
  gemm(arguments);
}

void Backend::gemm_reduce_scatter(Group& group, const Gemm& arguments, const Tensor& part) {
  gemm(arguments);
  group.reduce_scatter(arguments.d, part).wait();
}

}  // namespace railyard
