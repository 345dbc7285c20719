// Products of a block's linear layers, in compute dtype or 8 bits.
#include "runtime/model/block_linear.hpp"

#include "runtime/model/linear.hpp"

namespace railyard {

BlockLinear::BlockLinear(const ModelShape& shape, LayerInventory& inventory, const std::string& name, int weight,
                         int bias)
    : weight_(weight), bias_(bias), eight_bit_(shape.eight_bit), reduce_over_tp_(shape.tp > 1) {
  if (!eight_bit_) return;
  const ParameterSpec& spec = inventory.parameters[static_cast<size_t>(weight)];
  const std::int64_t out = spec.rows, in = spec.columns, n = shape.tokens();
  const auto add = [&](const char* buffer, Shape extent, Lifetime lifetime, DType dtype) {
    inventory.buffers.push_back({name + "." + buffer, dtype, extent, lifetime});
    return static_cast<int>(inventory.buffers.size()) - 1;
  };
  maximum_ = add("maximum", Shape{1}, Lifetime::kLayer, DType::kFloat32);
  w_ = {add("weight_8bit", Shape{out, in}, Lifetime::kLayer, DType::kFloat8E4M3),
        add("weight_8bit_transposed", Shape{in, out}, Lifetime::kLayer, DType::kFloat8E4M3),
        add("weight_scale", Shape{1}, Lifetime::kLayer, DType::kFloat32)};
  x_ = {add("input_8bit", Shape{n, in}, Lifetime::kForward, DType::kFloat8E4M3),
        add("input_8bit_transposed", Shape{in, n}, Lifetime::kSavedForWeight, DType::kFloat8E4M3),
        add("input_scale", Shape{1}, Lifetime::kSavedForWeight, DType::kFloat32)};
  grad_ = {add("grad_8bit", Shape{n, out}, Lifetime::kBackward, DType::kFloat8E5M2),
           add("grad_8bit_transposed", Shape{out, n}, Lifetime::kBackward, DType::kFloat8E5M2),
           add("grad_scale", Shape{1}, Lifetime::kBackward, DType::kFloat32)};
}

Tensor BlockLinear::at(const LayerBuffers& buffers, int values, int scale) const {
  Tensor tensor = buffers[static_cast<size_t>(values)];
  tensor.scale = buffers[static_cast<size_t>(scale)].as<float>();
  return tensor;
}

void BlockLinear::cast(const StepContext& context, const LayerBuffers& buffers, const Tensor& in,
                       const Cast& to) const {
  const Tensor maximum = buffers[static_cast<size_t>(maximum_)], scale = buffers[static_cast<size_t>(to.scale)];
  const Tensor values = at(buffers, to.values, to.scale);
  context.backend.zero(maximum);
  context.backend.amax(in, maximum);
  if (reduce_over_tp_) context.tp.all_reduce(maximum, ReduceOp::kMax).wait();  // parts of one tensor share its scale
  context.backend.scale_from_amax(maximum, values.dtype, scale);
  context.backend.quantize(in, values, at(buffers, to.transposed, to.scale), {});
}

Gemm BlockLinear::forward(const StepContext& context, const LayerBuffers& buffers, const Tensor& x, const Tensor& y,
                          const Tensor& addend, const std::vector<Parameter*>& parameters) const {
  const Tensor weight = parameters[static_cast<size_t>(weight_)]->value;
  const Tensor bias = bias_ < 0 ? Tensor{} : parameters[static_cast<size_t>(bias_)]->value;
  if (!eight_bit_) return linear_forward(x, weight, bias, addend, y);
  if (context.weights_changed) cast(context, buffers, weight, w_);
  cast(context, buffers, x, x_);
  Gemm product = linear_forward(at(buffers, x_.values, x_.scale), at(buffers, w_.values, w_.scale), bias, addend, y);
  product.fast_accumulation = true;
  return product;
}

void BlockLinear::backward_input(const StepContext& context, const LayerBuffers& buffers, const Tensor& grad_y,
                                 const Tensor& grad_x, const std::vector<Parameter*>& parameters) const {
  if (!eight_bit_) {
    context.backend.gemm(linear_backward_input(grad_y, parameters[static_cast<size_t>(weight_)]->value, grad_x));
    return;
  }
  cast(context, buffers, grad_y, grad_);
  context.backend.gemm({.a = at(buffers, grad_.values, grad_.scale),
                        .b = at(buffers, w_.transposed, w_.scale),
                        .transpose_b = true,
                        .d = grad_x});
}

void BlockLinear::backward_weight(const StepContext& context, const LayerBuffers& buffers, const Tensor& grad_y,
                                  const Tensor& x, const std::vector<Parameter*>& parameters) const {
  const Tensor gradient = parameters[static_cast<size_t>(weight_)]->gradient;
  if (eight_bit_) {
    context.backend.gemm({.a = at(buffers, grad_.transposed, grad_.scale),
                          .b = at(buffers, x_.transposed, x_.scale),
                          .transpose_b = true,
                          .d = gradient,
                          .accumulate = true});
  } else {
    context.backend.gemm(linear_backward_weight(grad_y, x, gradient));
  }
  if (bias_ >= 0) context.backend.bias_gradient(grad_y, parameters[static_cast<size_t>(bias_)]->gradient);
}

}  // namespace railyard
