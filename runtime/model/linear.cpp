// Parameter specs of split linear layers, their three products and the communication around them.
#include "runtime/model/linear.hpp"

#include <cmath>

namespace railyard {

ParameterSpec column_parallel_weight(const ModelShape& shape, const std::string& name,
                                     const std::vector<FusedPart>& parts, std::int64_t in) {
  ParameterSpec spec{
      .name = name, .columns = in, .decay = true, .split_over_tp = shape.tp > 1, .overwrites_gradient = true};
  for (const FusedPart& part : parts) {
    const std::int64_t rows = part.out / shape.tp;
    spec.pieces.push_back({.name = part.name + ".weight",
                           .logical_rows = part.out,
                           .logical_columns = in,
                           .first_row = shape.tp_rank * rows,
                           .rows = rows,
                           .local_row = spec.rows,
                           .deviation = static_cast<float>(shape.spec.init_std)});
    spec.rows += rows;
  }
  return spec;
}

ParameterSpec column_parallel_bias(const ModelShape& shape, const std::string& name,
                                   const std::vector<FusedPart>& parts) {
  // A vector split over ranks: kept as a column so that pieces are rows, as in the weight.
  ParameterSpec spec{.name = name, .columns = 1, .split_over_tp = shape.tp > 1};
  for (const FusedPart& part : parts) {
    const std::int64_t rows = part.out / shape.tp;
    spec.pieces.push_back({.name = part.name + ".bias",
                           .logical_rows = part.out,
                           .logical_columns = 1,
                           .first_row = shape.tp_rank * rows,
                           .rows = rows,
                           .local_row = spec.rows,
                           .vector = true});
    spec.rows += rows;
  }
  return spec;
}

ParameterSpec row_parallel_weight(const ModelShape& shape, const std::string& name, std::int64_t out, std::int64_t in) {
  const std::int64_t columns = in / shape.tp;
  double deviation = shape.spec.init_std;
  if (shape.spec.scaled_init) deviation /= std::sqrt(2.0 * static_cast<double>(shape.spec.layers));
  ParameterSpec spec{.name = name,
                     .rows = out,
                     .columns = columns,
                     .decay = true,
                     .split_over_tp = shape.tp > 1,
                     .overwrites_gradient = true};
  spec.pieces.push_back({.name = name + ".weight",
                         .logical_rows = out,
                         .logical_columns = in,
                         .first_column = shape.tp_rank * columns,
                         .rows = out,
                         .deviation = static_cast<float>(deviation)});
  return spec;
}

ParameterSpec replicated_vector(const ModelShape& shape, const std::string& name, std::int64_t size, float value) {
  ParameterSpec spec{.name = name, .rows = size, .columns = 1, .sum_over_tp = shape.sequence_parallel};
  spec.pieces.push_back(
      {.name = name, .logical_rows = size, .logical_columns = 1, .rows = size, .vector = true, .mean = value});
  return spec;
}

Gemm linear_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& addend, const Tensor& y) {
  return {.a = x, .b = weight, .transpose_b = true, .d = y, .bias = bias, .addend = addend};
}

Gemm linear_backward_input(const Tensor& grad_y, const Tensor& weight, const Tensor& grad_x) {
  return {.a = grad_y, .b = weight, .d = grad_x};
}

Gemm linear_backward_weight(const Tensor& grad_y, const Tensor& x, const Tensor& grad_weight, bool accumulate) {
  return {.a = grad_y, .transpose_a = true, .b = x, .d = grad_weight, .accumulate = accumulate};
}

void column_parallel_forward(const StepContext& context, const ModelShape& shape, const Tensor& local,
                             const Gemm& product) {
  if (shape.sequence_parallel) {
    context.backend.all_gather_gemm(context.tp, local, product.a, product);
  } else {
    context.backend.gemm(product);
  }
}

Tensor row_parallel_reduce(const StepContext& context, const ModelShape& shape, const Gemm& product,
                           const Tensor& local) {
  if (shape.sequence_parallel) {
    context.backend.gemm_reduce_scatter(context.tp, product, local);
    return local;
  }
  context.backend.gemm(product);
  if (shape.tp > 1) context.tp.all_reduce(product.d, ReduceOp::kSum).wait();
  return product.d;
}

PendingReduce start_input_gradient_reduce(const StepContext& context, const ModelShape& shape, const Tensor& partial,
                                          const Tensor& local) {
  if (shape.sequence_parallel) return {context.tp.reduce_scatter(partial, local), local};
  if (shape.tp > 1) return {context.tp.all_reduce(partial, ReduceOp::kSum), partial};
  return {Handle(), partial};
}

PendingGather start_gather(const StepContext& context, const ModelShape& shape, const Tensor& local,
                           const Tensor& whole) {
  if (!shape.sequence_parallel) return {Handle(), local};
  return {context.tp.all_gather(local, whole), whole};
}

}  // namespace railyard
