// A linear layer within a transformer block: its three products in compute dtype, or in 8-bit numbers.
//
// 8 bits (Micikevicius et al. 2022): each operand is cast together with its transpose, since the three products
// contract over different axes. Weights are cast once per update, and their transpose is made from the cast bytes. Sums
// are in fp32, and exact ones in the backward pass. The recipes:
//   current  e4m3 for activations and weights, e5m2 for gradients, one scale per tensor from its own largest magnitude
//   delayed  the same types; the scale of a step comes from the largest magnitudes of the steps before it, which saves
//            a pass over every tensor (as in Transformer Engine)
//   block    e4m3 throughout; scales for 1 x 128 elements of activations and gradients, 128 x 128 of weights
//   (DeepSeek-AI
//            2024)
#pragma once

#include "runtime/model/layer.hpp"

namespace railyard {

// Whether the backward pass gets the layer's input again, or the cast of the forward pass is kept for it.
enum class LinearInput { kKept, kAgain };

class BlockLinear {
 public:
  BlockLinear() = default;
  // Adds its 8-bit buffers to `inventory` (none in compute dtype). `weight`, `bias`: positions in the inventory's
  // parameters, bias -1: none. The weight is [out, in] on this rank. `phase` is that of its temporaries.
  BlockLinear(const ModelShape& shape, LayerInventory& inventory, const std::string& name, int weight, int bias,
              LinearInput input, int phase);

  // y [n, out] = x [n, in] w^T + bias (+ addend), ready for Backend::gemm and its fused pairs.
  Gemm forward(const StepContext& context, const LayerBuffers& buffers, const Tensor& x, const Tensor& y,
               const Tensor& addend, const std::vector<Parameter*>& parameters) const;
  // grad_x [n, in] = grad_y [n, out] w.
  void backward_input(const StepContext& context, const LayerBuffers& buffers, const Tensor& grad_y,
                      const Tensor& grad_x, const std::vector<Parameter*>& parameters) const;
  // Gradients of weight and bias are added; after backward_input of the same microbatch. `x` is not read in 8 bits when
  // its cast was kept.
  void backward_weight(const StepContext& context, const LayerBuffers& buffers, const Tensor& grad_y, const Tensor& x,
                       const std::vector<Parameter*>& parameters) const;
  // Delayed scaling: the scales of the next step, from what this step's tensors reached. Collective over
  // context.same_layers.
  void finish_step(const StepContext& context, const LayerBuffers& buffers) const;

 private:
  enum Operand { kInput, kWeight, kGradient };
  // Positions of a cast tensor's buffers. Per-tensor scales are shared by both orientations.
  struct Cast {
    int values = -1, transposed = -1, scale = -1, transposed_scale = -1;
    DType type = DType::kFloat8E4M3;
    Scaling scaling = Scaling::kTensor;
  };
  [[nodiscard]] Tensor at(const LayerBuffers& buffers, const Cast& cast, bool transposed) const;
  // The scale of a whole tensor, before it is cast; nothing for blocks.
  void set_scale(const StepContext& context, const LayerBuffers& buffers, const Tensor& in, Operand operand) const;
  // Writes the wanted orientations.
  void quantize(const StepContext& context, const LayerBuffers& buffers, const Tensor& in, Operand operand, bool values,
                bool transposed) const;

  int weight_ = -1, bias_ = -1;
  std::optional<Fp8Recipe> recipe_;
  LinearInput input_ = LinearInput::kKept;
  bool reduce_over_tp_ = false;
  Cast casts_[3];                  // by operand
  int maxima_ = -1;                // [3] largest magnitudes; current: one that is free for use
  int scales_ = -1;                // delayed: [3], of the present step
  int history_[3] = {-1, -1, -1};  // delayed: [steps] each
};

}  // namespace railyard
