// One linear layer within a transformer block: its three products in compute dtype, or in 8-bit numbers.
//
// 8 bits ("hybrid", Micikevicius et al. 2022): e4m3 for activations and weights, e5m2 for gradients, one scale per
// tensor from the tensor's own largest magnitude ("current scaling"). Each operand is cast together with its transpose,
// since the three products contract over different axes. Weights are cast once per update. Sums are in fp32, and exact
// ones in the backward pass.
#pragma once

#include "runtime/model/layer.hpp"

namespace railyard {

class BlockLinear {
 public:
  BlockLinear() = default;
  // Adds its 8-bit buffers to `inventory` (none in compute dtype). `weight`, `bias`: positions in the inventory's
  // parameters, bias -1: none. The weight is [out, in] on this rank.
  BlockLinear(const ModelShape& shape, LayerInventory& inventory, const std::string& name, int weight, int bias);

  // y [n, out] = x [n, in] w^T + bias (+ addend), ready for Backend::gemm and its fused pairs.
  Gemm forward(const StepContext& context, const LayerBuffers& buffers, const Tensor& x, const Tensor& y,
               const Tensor& addend, const std::vector<Parameter*>& parameters) const;
  // grad_x [n, in] = grad_y [n, out] w.
  void backward_input(const StepContext& context, const LayerBuffers& buffers, const Tensor& grad_y,
                      const Tensor& grad_x, const std::vector<Parameter*>& parameters) const;
  // Gradients of weight and bias are added; after backward_input of the same microbatch. `x` is not read in 8 bits.
  void backward_weight(const StepContext& context, const LayerBuffers& buffers, const Tensor& grad_y, const Tensor& x,
                       const std::vector<Parameter*>& parameters) const;

 private:
  // Positions of a cast tensor's buffers.
  struct Cast {
    int values = -1, transposed = -1, scale = -1;
  };
  [[nodiscard]] Tensor at(const LayerBuffers& buffers, int values, int scale) const;
  void cast(const StepContext& context, const LayerBuffers& buffers, const Tensor& in, const Cast& to) const;

  int weight_ = -1, bias_ = -1;
  bool eight_bit_ = false;
  bool reduce_over_tp_ = false;
  int maximum_ = -1;
  Cast x_, w_, grad_;
};

}  // namespace railyard
