// Products of a block's linear layers, in compute dtype or 8 bits.
#include "runtime/model/block_linear.hpp"

#include "runtime/model/linear.hpp"

namespace railyard {

BlockLinear::BlockLinear(const ModelShape& shape, LayerInventory& inventory, const std::string& name, int weight,
                         int bias, LinearInput input, int phase)
    : weight_(weight), bias_(bias), recipe_(shape.fp8), input_(input), reduce_over_tp_(shape.tp > 1) {
  if (!recipe_) return;
  const ParameterSpec& spec = inventory.parameters[static_cast<size_t>(weight)];
  const std::int64_t out = spec.rows, in = spec.columns, n = shape.tokens();
  const auto add = [&](const std::string& buffer, Shape extent, Lifetime lifetime, DType dtype = DType::kFloat32) {
    inventory.buffers.push_back({name + "." + buffer, dtype, extent, lifetime, phase});
    return static_cast<int>(inventory.buffers.size()) - 1;
  };
  const bool block = *recipe_ == Fp8Recipe::kBlock;
  const auto add_cast = [&](const std::string& operand, std::int64_t rows, std::int64_t columns, DType type,
                            Scaling scaling, Lifetime values, Lifetime transposed, Lifetime scale) {
    Cast cast{.type = type, .scaling = scaling};
    cast.values = add(operand + "_8bit", Shape{rows, columns}, values, type);
    cast.transposed = add(operand + "_8bit_transposed", Shape{columns, rows}, transposed, type);
    if (scaling == Scaling::kTensor) {
      cast.scale = cast.transposed_scale = add(operand + "_scale", Shape{1}, scale);
    } else {
      // Blocks of weights keep the scales of both orientations; others have them as long as the values.
      const bool weights = scaling == Scaling::kBlock128;
      cast.scale = add(operand + "_scales", scales_shape(scaling, rows, columns), weights ? Lifetime::kLayer : values);
      cast.transposed_scale = add(operand + "_scales_transposed", scales_shape(scaling, columns, rows),
                                  weights ? Lifetime::kLayer : transposed);
    }
    return cast;
  };
  const Lifetime input_lifetime = input == LinearInput::kKept ? Lifetime::kSavedForWeight : Lifetime::kBackward;
  const Scaling rows_scaling = block ? Scaling::kRow128 : Scaling::kTensor,
                weight_scaling = block ? Scaling::kBlock128 : Scaling::kTensor;
  casts_[kWeight] = add_cast("weight", out, in, DType::kFloat8E4M3, weight_scaling, Lifetime::kLayer,
                             Lifetime::kBackward, Lifetime::kLayer);
  casts_[kInput] = add_cast("input", n, in, DType::kFloat8E4M3, rows_scaling, Lifetime::kForward, input_lifetime,
                            Lifetime::kSavedForWeight);
  casts_[kGradient] = add_cast("grad", n, out, block ? DType::kFloat8E4M3 : DType::kFloat8E5M2, rows_scaling,
                               Lifetime::kBackward, Lifetime::kBackward, Lifetime::kBackward);
  if (*recipe_ == Fp8Recipe::kCurrent) maxima_ = add("maximum", Shape{1}, Lifetime::kLayer);
  if (*recipe_ == Fp8Recipe::kDelayed) {
    maxima_ = add("maxima", Shape{3}, Lifetime::kLayer);
    scales_ = add("scales", Shape{3}, Lifetime::kState);
    history_[kInput] = add("input_amax_history", Shape{shape.amax_history}, Lifetime::kState);
    history_[kWeight] = add("weight_amax_history", Shape{shape.amax_history}, Lifetime::kState);
    history_[kGradient] = add("grad_amax_history", Shape{shape.amax_history}, Lifetime::kState);
  }
}

Tensor BlockLinear::at(const LayerBuffers& buffers, const Cast& cast, bool transposed) const {
  Tensor tensor = buffers[static_cast<size_t>(transposed ? cast.transposed : cast.values)];
  tensor.scale = buffers[static_cast<size_t>(transposed ? cast.transposed_scale : cast.scale)].as<float>();
  return tensor;
}

void BlockLinear::set_scale(const StepContext& context, const LayerBuffers& buffers, const Tensor& in,
                            Operand operand) const {
  if (*recipe_ == Fp8Recipe::kBlock) return;
  const Cast& cast = casts_[operand];
  const Tensor scale = buffers[static_cast<size_t>(cast.scale)];
  const bool delayed = *recipe_ == Fp8Recipe::kDelayed;
  if (delayed && context.training && context.scales_known) {
    context.backend.copy(buffers[static_cast<size_t>(scales_)].flat(operand, 1), scale);
    return;
  }
  // Delayed scaling measures in a run's first step, whose maxima start the history, and in evaluation, which leaves
  // none.
  const bool keeps = delayed && context.training;
  const Tensor maximum = buffers[static_cast<size_t>(maxima_)].flat(delayed ? operand : 0, 1);
  if (!keeps) context.backend.zero(maximum);
  context.backend.amax(in, maximum);
  if (reduce_over_tp_) context.tp.all_reduce(maximum, ReduceOp::kMax).wait();  // parts of one tensor share its scale
  context.backend.scale_from_amax(maximum, cast.type, scale);
  if (!keeps) context.backend.zero(maximum);
}

void BlockLinear::quantize(const StepContext& context, const LayerBuffers& buffers, const Tensor& in, Operand operand,
                           bool values, bool transposed) const {
  const Cast& cast = casts_[operand];
  const Tensor out = values ? at(buffers, cast, false) : Tensor{};
  Tensor turned = transposed ? at(buffers, cast, true) : Tensor{};
  if (cast.scaling == Scaling::kBlock128 && !transposed)  // the bytes are turned later, with these scales
    turned.scale = buffers[static_cast<size_t>(cast.transposed_scale)].as<float>();
  if (cast.scaling != Scaling::kTensor) return context.backend.quantize_blocks(cast.scaling, in, out, turned);
  const bool watched = *recipe_ == Fp8Recipe::kDelayed && context.training && context.scales_known;
  const Tensor maximum = watched ? buffers[static_cast<size_t>(maxima_)].flat(operand, 1) : Tensor{};
  context.backend.quantize(in, out, turned, maximum);
}

Gemm BlockLinear::forward(const StepContext& context, const LayerBuffers& buffers, const Tensor& x, const Tensor& y,
                          const Tensor& addend, const std::vector<Parameter*>& parameters) const {
  const Tensor weight = parameters[static_cast<size_t>(weight_)]->value;
  const Tensor bias = bias_ < 0 ? Tensor{} : parameters[static_cast<size_t>(bias_)]->value;
  if (!recipe_) return linear_forward(x, weight, bias, addend, y);
  if (context.weights_changed) {
    set_scale(context, buffers, weight, kWeight);
    quantize(context, buffers, weight, kWeight, true, false);
  }
  set_scale(context, buffers, x, kInput);
  quantize(context, buffers, x, kInput, true, input_ == LinearInput::kKept);
  Gemm product =
      linear_forward(at(buffers, casts_[kInput], false), at(buffers, casts_[kWeight], false), bias, addend, y);
  product.a_scaling = casts_[kInput].scaling;
  product.b_scaling = casts_[kWeight].scaling;
  product.fast_accumulation = true;
  return product;
}

void BlockLinear::backward_input(const StepContext& context, const LayerBuffers& buffers, const Tensor& grad_y,
                                 const Tensor& grad_x, const std::vector<Parameter*>& parameters) const {
  if (!recipe_) {
    context.backend.gemm(linear_backward_input(grad_y, parameters[static_cast<size_t>(weight_)]->value, grad_x));
    return;
  }
  set_scale(context, buffers, grad_y, kGradient);
  quantize(context, buffers, grad_y, kGradient, true, true);
  context.backend.transpose(at(buffers, casts_[kWeight], false), at(buffers, casts_[kWeight], true));
  context.backend.gemm({.a = at(buffers, casts_[kGradient], false),
                        .b = at(buffers, casts_[kWeight], true),
                        .transpose_b = true,
                        .d = grad_x,
                        .a_scaling = casts_[kGradient].scaling,
                        .b_scaling = casts_[kWeight].scaling});
}

void BlockLinear::backward_weight(const StepContext& context, const LayerBuffers& buffers, const Tensor& grad_y,
                                  const Tensor& x, const std::vector<Parameter*>& parameters) const {
  const Tensor gradient = parameters[static_cast<size_t>(weight_)]->gradient;
  if (recipe_) {
    if (input_ == LinearInput::kAgain) quantize(context, buffers, x, kInput, false, true);
    context.backend.gemm({.a = at(buffers, casts_[kGradient], true),
                          .b = at(buffers, casts_[kInput], true),
                          .transpose_b = true,
                          .d = gradient,
                          .accumulate = !context.weights_changed,
                          .a_scaling = casts_[kGradient].scaling,
                          .b_scaling = casts_[kInput].scaling});
  } else {
    context.backend.gemm(linear_backward_weight(grad_y, x, gradient, !context.weights_changed));
  }
  if (bias_ >= 0) context.backend.bias_gradient(grad_y, parameters[static_cast<size_t>(bias_)]->gradient);
}

void BlockLinear::finish_step(const StepContext& context, const LayerBuffers& buffers) const {
  if (recipe_ != Fp8Recipe::kDelayed) return;
  const Tensor maxima = buffers[static_cast<size_t>(maxima_)], scales = buffers[static_cast<size_t>(scales_)];
  context.same_layers.all_reduce(maxima, ReduceOp::kMax).wait();
  for (const Operand operand : {kInput, kWeight, kGradient})
    context.backend.scale_from_history(maxima.flat(operand, 1), buffers[static_cast<size_t>(history_[operand])],
                                       casts_[operand].type, scales.flat(operand, 1));
}

}  // namespace railyard
