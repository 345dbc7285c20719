// Linear layers split over tensor-parallel ranks (Shoeybi et al. 2019; sequence parallelism: Korthikanti et al. 2022).
// Weights are [out, in]: y [n, out] = x [n, in] * weight^T + bias. Column-parallel layers split `out`, row-parallel
// ones `in`.
#pragma once

#include <string>
#include <vector>

#include "runtime/model/layer.hpp"

namespace railyard {

// One logical matrix within a fused column-parallel weight.
struct FusedPart {
  std::string name;
  std::int64_t out = 0;  // logical rows, a multiple of tp
};

// The specs of a fused column-parallel weight [sum of out / tp, in] and its bias. Each rank's rows of part 0 come
// first.
ParameterSpec column_parallel_weight(const ModelShape& shape, const std::string& name,
                                     const std::vector<FusedPart>& parts, std::int64_t in);
ParameterSpec column_parallel_bias(const ModelShape& shape, const std::string& name,
                                   const std::vector<FusedPart>& parts);
// The spec of a row-parallel weight [out, in / tp], an output projection: its deviation is divided by sqrt(2 layers)
// when scaled_init is set.
ParameterSpec row_parallel_weight(const ModelShape& shape, const std::string& name, std::int64_t out, std::int64_t in);
// A vector that every tp rank holds.
ParameterSpec replicated_vector(const ModelShape& shape, const std::string& name, std::int64_t size, float value);

// y = x w^T (+ bias) (+ addend); all in compute dtype. bias and addend may be undefined.
Gemm linear_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& addend, const Tensor& y);
// grad_x = grad_y w.
Gemm linear_backward_input(const Tensor& grad_y, const Tensor& weight, const Tensor& grad_x);
// grad_w = grad_y^T x, or += when `accumulate`.
Gemm linear_backward_weight(const Tensor& grad_y, const Tensor& x, const Tensor& grad_weight, bool accumulate);

// Runs a column-parallel product. Under sequence parallelism its input product.a is to be gathered from `local` rows
// first.
void column_parallel_forward(const StepContext& context, const ModelShape& shape, const Tensor& local,
                             const Gemm& product);
// Sums a row-parallel product over tp: into `local` rows (sequence parallelism), or in place.
Tensor row_parallel_reduce(const StepContext& context, const ModelShape& shape, const Gemm& product,
                           const Tensor& local);
// Sums the gradient of a column-parallel layer's input over tp: into `local` rows, or in place. The result is
// `reduced`.
struct PendingReduce {
  Handle handle;
  Tensor reduced;
};
PendingReduce start_input_gradient_reduce(const StepContext& context, const ModelShape& shape, const Tensor& partial,
                                          const Tensor& local);
// All tokens' rows of a gradient that is known for local rows; `local` itself without sequence parallelism.
struct PendingGather {
  Handle handle;
  Tensor whole;
};
PendingGather start_gather(const StepContext& context, const ModelShape& shape, const Tensor& local,
                           const Tensor& whole);

}  // namespace railyard
