// The transformer layer's parameters, buffers and steps.
#include "runtime/model/transformer_block.hpp"

#include "runtime/base/philox.hpp"
#include "runtime/model/block_linear.hpp"
#include "runtime/model/linear.hpp"

namespace railyard {
namespace {

class TransformerBlock final : public Layer {
 public:
  TransformerBlock(const ModelShape& shape, std::int64_t index)
      : shape_(shape),
        name_(fmt::format("layers.{}", index)),
        norm_(norm_kind(shape.spec.norm)),
        activation_(activation_kind(shape.spec.activation)),
        attention_(shape.attention()),
        attention_key_(stream_key(shape.seed, name_ + ".attention_dropout")),
        projection_key_(stream_key(shape.seed, name_ + ".self_attention.dropout")),
        mlp_key_(stream_key(shape.seed, name_ + ".mlp.dropout")) {
    // The residual is added by the product itself when nothing stands between the two.
    fused_residual_ = shape.tp == 1 && !shape.spec.bias && shape.spec.hidden_dropout == 0.0;
    if (index < shape.first_last_wide || index >= shape.spec.layers - shape.first_last_wide) shape_.fp8.reset();
    list_parameters();
    list_buffers();
    const auto linear = [&](const char* part, int weight, int bias, LinearInput input, int phase) {
      return BlockLinear(shape_, inventory_, name_ + part, weight, bias, input, phase);
    };
    qkv_linear_ = linear(".self_attention.qkv", qkv_, qkv_bias_, LinearInput::kKept, kAttentionPhase);
    projection_linear_ = linear(".self_attention.proj", projection_, -1, LinearInput::kAgain, kAttentionPhase);
    up_linear_ = linear(".mlp.up", up_, up_bias_, LinearInput::kAgain, kUpPhase);
    down_linear_ = linear(".mlp.down", down_, -1, LinearInput::kAgain, kDownPhase);
    count_flops();
  }

  const std::string& name() const override { return name_; }
  const LayerInventory& inventory() const override { return inventory_; }
  void bind(std::vector<Parameter*> parameters) override { parameters_ = std::move(parameters); }

  void forward(const StepContext& context, const Tensor& input, const Tensor& output,
               const LayerBuffers& buffers) override {
    Backend& backend = context.backend;
    const auto at = [&](int index) { return index < 0 ? Tensor{} : buffers[static_cast<size_t>(index)]; };
    backend.norm_forward(norm_, input, value(input_norm_), value(input_norm_bias_), epsilon(), at(normed1_), at(mean1_),
                         at(rstd1_));
    column_parallel_forward(
        context, shape_, at(normed1_),
        qkv_linear_.forward(context, buffers, whole_input(at(normed1_), at), at(packed_), {}, parameters_));
    if (query_norm_ >= 0)
      backend.head_norm_forward(attention_, at(packed_), value(query_norm_), value(key_norm_), epsilon(),
                                at(raw_heads_), at(head_rstd_));
    if (context.rope_cosine.defined())
      backend.rope(at(packed_), attention_, context.microbatch.positions, context.rope_cosine, context.rope_sine,
                   false);
    backend.attention_forward(attention_, at(packed_), attention_dropout(context), context.microbatch.first_keys,
                              at(attention_out_), at(log_sum_exp_), at(attention_workspace_));
    if (fused_residual_) {
      backend.gemm(projection_linear_.forward(context, buffers, at(attention_out_), at(residual_), input, parameters_));
    } else {
      const Tensor sum = row_parallel_reduce(
          context, shape_,
          projection_linear_.forward(context, buffers, at(attention_out_), at(partial_), {}, parameters_),
          at(partial_local_));
      backend.residual_add(sum, value(projection_bias_), hidden_dropout(context, projection_key_), input,
                           at(residual_));
    }

    backend.norm_forward(norm_, at(residual_), value(mlp_norm_), value(mlp_norm_bias_), epsilon(), at(normed2_),
                         at(mean2_), at(rstd2_));
    column_parallel_forward(
        context, shape_, at(normed2_),
        up_linear_.forward(context, buffers, whole_input(at(normed2_), at), at(up_out_), {}, parameters_));
    backend.activation_forward(activation_, at(up_out_), at(activated_));
    if (fused_residual_) {
      backend.gemm(down_linear_.forward(context, buffers, at(activated_), output, at(residual_), parameters_));
    } else {
      const Tensor sum = row_parallel_reduce(
          context, shape_, down_linear_.forward(context, buffers, at(activated_), at(partial_), {}, parameters_),
          at(partial_local_));
      backend.residual_add(sum, value(down_bias_), hidden_dropout(context, mlp_key_), at(residual_), output);
    }
  }

  void backward(const StepContext& context, const Tensor& input, const Tensor& grad_output, const Tensor& grad_input,
                const LayerBuffers& buffers, BackwardPart part) override {
    const auto at = [&](int index) { return index < 0 ? Tensor{} : buffers[static_cast<size_t>(index)]; };
    backward_mlp(context, grad_output, buffers, at, part);
    backward_attention(context, input, grad_input, buffers, at, part);
  }

  void finish_step(const StepContext& context, const LayerBuffers& buffers) override {
    for (const BlockLinear* linear : {&qkv_linear_, &projection_linear_, &up_linear_, &down_linear_})
      linear->finish_step(context, buffers);
  }

 private:
  // What one phase needs is gone before the next begins: forward from attention to down, backward the other way.
  enum Phase { kThroughout, kDownPhase, kUpPhase, kAttentionPhase };

  // ---- what the layer is made of ----
  void list_parameters() {
    const ModelSpec& m = shape_.spec;
    const std::string attention = name_ + ".self_attention", mlp = name_ + ".mlp";
    const float one = norm_ == NormKind::kLayerNorm1p ? 0.0F : 1.0F;
    const auto add = [&](ParameterSpec spec) {
      inventory_.parameters.push_back(std::move(spec));
      return static_cast<int>(inventory_.parameters.size()) - 1;
    };
    const std::vector<FusedPart> qkv{{attention + ".query", m.heads * m.head_dim},
                                     {attention + ".key", m.kv_heads * m.head_dim},
                                     {attention + ".value", m.kv_heads * m.head_dim}};
    std::vector<FusedPart> up;
    if (m.gated()) up.push_back({mlp + ".gate", m.ffn});
    up.push_back({mlp + ".up", m.ffn});
    input_norm_ = add(replicated_vector(shape_, name_ + ".input_norm.weight", m.hidden, one));
    if (m.norm_has_bias())
      input_norm_bias_ = add(replicated_vector(shape_, name_ + ".input_norm.bias", m.hidden, 0.0F));
    qkv_ = add(column_parallel_weight(shape_, attention + ".qkv", qkv, m.hidden));
    if (m.bias || m.qkv_bias) qkv_bias_ = add(column_parallel_bias(shape_, attention + ".qkv", qkv));
    if (m.qk_norm) {
      query_norm_ = add(head_norm(attention + ".query_norm.weight"));
      key_norm_ = add(head_norm(attention + ".key_norm.weight"));
    }
    projection_ = add(row_parallel_weight(shape_, attention + ".proj", m.hidden, m.heads * m.head_dim));
    if (m.bias) projection_bias_ = add(replicated_vector(shape_, attention + ".proj.bias", m.hidden, 0.0F));
    mlp_norm_ = add(replicated_vector(shape_, name_ + ".pre_mlp_norm.weight", m.hidden, one));
    if (m.norm_has_bias())
      mlp_norm_bias_ = add(replicated_vector(shape_, name_ + ".pre_mlp_norm.bias", m.hidden, 0.0F));
    up_ = add(column_parallel_weight(shape_, mlp + ".up", up, m.hidden));
    if (m.bias) up_bias_ = add(column_parallel_bias(shape_, mlp + ".up", up));
    down_ = add(row_parallel_weight(shape_, mlp + ".down", m.hidden, m.ffn));
    if (m.bias) down_bias_ = add(replicated_vector(shape_, mlp + ".down.bias", m.hidden, 0.0F));
  }

  // Every tp rank holds it, and sees its own heads.
  ParameterSpec head_norm(const std::string& parameter) const {
    ParameterSpec spec = replicated_vector(shape_, parameter, shape_.spec.head_dim, 1.0F);
    spec.sum_over_tp = shape_.tp > 1;
    return spec;
  }

  void list_buffers() {
    const ModelSpec& m = shape_.spec;
    const std::int64_t n = shape_.tokens(), local = shape_.local_tokens(), h = m.hidden;
    const std::int64_t f = m.ffn / shape_.tp, up = m.gated() ? 2 * f : f, heads = attention_.output_columns();
    const auto add = [&](const char* buffer, Shape extent, Lifetime lifetime, DType dtype, Phase phase = kThroughout) {
      inventory_.buffers.push_back({name_ + "." + buffer, dtype, extent, lifetime, phase});
      return static_cast<int>(inventory_.buffers.size()) - 1;
    };
    const auto work = [&](const char* buffer, std::int64_t rows, std::int64_t columns, Lifetime lifetime,
                          Phase phase = kThroughout) {
      return add(buffer, Shape{rows, columns}, lifetime, shape_.dtype, phase);
    };
    const auto statistic = [&](const char* buffer) {
      return add(buffer, Shape{local}, Lifetime::kSaved, DType::kFloat32);
    };
    const bool centred = norm_ != NormKind::kRmsNorm;

    // In 8 bits the weight gradients read the cast inputs instead.
    const Lifetime input_lifetime = shape_.fp8 ? Lifetime::kForward : Lifetime::kSavedForWeight;
    normed1_ = work("normed1", local, h, input_lifetime);
    if (centred) mean1_ = statistic("mean1");
    rstd1_ = statistic("rstd1");
    packed_ = work("qkv", n, attention_.packed_columns(), Lifetime::kSaved);
    if (m.qk_norm) {
      const std::int64_t normed_heads = attention_.q_heads + attention_.kv_heads;
      raw_heads_ = work("raw_heads", n, normed_heads * attention_.d_qk, Lifetime::kSaved);
      head_rstd_ = add("head_rstd", Shape{n, normed_heads}, Lifetime::kSaved, DType::kFloat32);
    }
    attention_out_ = work("attention_out", n, heads, Lifetime::kSavedForWeight);
    log_sum_exp_ = add("log_sum_exp", Shape{attention_.batch, attention_.q_heads, attention_.length}, Lifetime::kSaved,
                       DType::kFloat32);
    residual_ = work("residual", local, h, Lifetime::kSaved);
    normed2_ = work("normed2", local, h, input_lifetime);
    if (centred) mean2_ = statistic("mean2");
    rstd2_ = statistic("rstd2");
    // Its gradient takes its place.
    up_out_ = grad_up_ = work("up_out", n, up, Lifetime::kSavedForWeight);

    activated_ = work("activated", n, f, Lifetime::kForward, kDownPhase);
    if (!fused_residual_) partial_ = work("partial", n, h, Lifetime::kForward);
    if (shape_.sequence_parallel) {
      partial_local_ = work("partial_local", local, h, Lifetime::kForward);
      gathered_forward_ = work("gathered", n, h, Lifetime::kForward);
    }
    if (shape_.attention_workspace_forward > 0)
      attention_workspace_ =
          add("attention_workspace", Shape{static_cast<std::int64_t>(shape_.attention_workspace_forward)},
              Lifetime::kForward, DType::kUInt8, kAttentionPhase);

    if (m.hidden_dropout > 0.0) dropped_ = work("grad_dropped", local, h, Lifetime::kBackward);
    if (m.hidden_dropout > 0.0) dropped2_ = work("grad_dropped2", local, h, Lifetime::kBackward);
    if (shape_.sequence_parallel) {
      grad_whole_ = work("grad_gathered", n, h, Lifetime::kBackward);
      grad_whole2_ = work("grad_gathered2", n, h, Lifetime::kBackward);
      gathered_backward_ = work("normed_gathered", n, h, Lifetime::kBackward);
      grad_normed_local_ = work("grad_normed_local", local, h, Lifetime::kBackward);
    }
    // What the activation gave takes the place of its gradient.
    grad_activated_ = activated_again_ = work("grad_activated", n, f, Lifetime::kBackward, kDownPhase);
    if (shape_.fp8) normed2_again_ = work("normed2_again", local, h, Lifetime::kBackward, kUpPhase);
    grad_normed_ = work("grad_normed", n, h, Lifetime::kBackward);
    grad_residual_ = work("grad_residual", local, h, Lifetime::kBackward);
    grad_attention_ = work("grad_attention", n, heads, Lifetime::kBackward, kAttentionPhase);
    grad_packed_ = work("grad_qkv", n, attention_.packed_columns(), Lifetime::kBackward, kAttentionPhase);
    if (shape_.attention_workspace_backward > 0)
      attention_workspace_backward_ =
          add("attention_workspace_backward", Shape{static_cast<std::int64_t>(shape_.attention_workspace_backward)},
              Lifetime::kBackward, DType::kUInt8, kAttentionPhase);
  }

  void count_flops() {
    const auto tokens = static_cast<double>(shape_.tokens());
    for (const ParameterSpec& spec : inventory_.parameters)
      if (spec.columns > 1) inventory_.matmul_flops += 2.0 * static_cast<double>(spec.elements()) * tokens;
    inventory_.attention_flops =
        tokens * static_cast<double>(shape_.spec.seq_length * attention_.q_heads * (attention_.d_qk + attention_.d_v));
  }

  // ---- small views ----
  Tensor value(int index) const { return index < 0 ? Tensor{} : parameters_[static_cast<size_t>(index)]->value; }
  Tensor gradient(int index) const { return index < 0 ? Tensor{} : parameters_[static_cast<size_t>(index)]->gradient; }
  float epsilon() const { return static_cast<float>(shape_.spec.norm_eps); }

  // Where all tokens' rows of a column-parallel layer's input are.
  template <class At>
  Tensor whole_input(const Tensor& local, const At& at) const {
    return shape_.sequence_parallel ? at(gathered_forward_) : local;
  }

  Dropout attention_dropout(const StepContext& context) const {
    if (!context.training || shape_.spec.attention_dropout == 0.0) return {};
    return {static_cast<float>(shape_.spec.attention_dropout), attention_key_, context.microbatch.sample_ids,
            context.microbatch.positions, shape_.tp_rank * attention_.q_heads};
  }
  Dropout hidden_dropout(const StepContext& context, std::uint64_t key) const {
    if (!context.training || shape_.spec.hidden_dropout == 0.0) return {};
    const std::int64_t first = shape_.first_local_token(), count = shape_.local_tokens();
    return {static_cast<float>(shape_.spec.hidden_dropout), key, context.microbatch.sample_ids.flat(first, count),
            context.microbatch.positions.flat(first, count), 0};
  }

  // The gradient that flows into a row-parallel layer's output: through dropout, gathered over the tokens.
  template <class At>
  Tensor output_gradient(const StepContext& context, const Tensor& grad, std::uint64_t key, int dropped, int whole,
                         const At& at, BackwardPart part) const {
    const Dropout dropout = hidden_dropout(context, key);
    const Tensor local = dropout.probability > 0.0F ? at(dropped) : grad;
    if (part != BackwardPart::kWeight && dropout.probability > 0.0F) context.backend.dropout(grad, dropout, local);
    if (part == BackwardPart::kWeight) return shape_.sequence_parallel ? at(whole) : local;
    PendingGather gather = start_gather(context, shape_, local, at(whole));
    gather.handle.wait();
    return gather.whole;
  }

  // From the gradient of a column-parallel layer's output to that of the residual stream before its norm. The reduction
  // over tp runs while the weight gradient is computed.
  template <class At>
  void backward_column(const StepContext& context, const Tensor& grad_y, const BlockLinear& linear, int normed,
                       const Tensor& x, int norm_weight, int norm_bias, int mean, int rstd, const Tensor& addend,
                       const Tensor& grad_x, const LayerBuffers& buffers, const At& at, BackwardPart part) const {
    Backend& backend = context.backend;
    if (part == BackwardPart::kWeight) {
      PendingGather again = start_gather(context, shape_, at(normed), at(gathered_backward_));
      again.handle.wait();
      linear.backward_weight(context, buffers, grad_y, again.whole, parameters_);
      return;
    }
    PendingGather again;
    if (part == BackwardPart::kBoth) again = start_gather(context, shape_, at(normed), at(gathered_backward_));
    linear.backward_input(context, buffers, grad_y, at(grad_normed_), parameters_);
    again.handle.wait();
    PendingReduce reduce = start_input_gradient_reduce(context, shape_, at(grad_normed_), at(grad_normed_local_));
    if (part == BackwardPart::kBoth) linear.backward_weight(context, buffers, grad_y, again.whole, parameters_);
    reduce.handle.wait();
    backend.norm_backward(norm_, reduce.reduced, x, value(norm_weight), at(mean), at(rstd), addend, grad_x,
                          gradient(norm_weight), gradient(norm_bias));
  }

  template <class At>
  void backward_mlp(const StepContext& context, const Tensor& grad_output, const LayerBuffers& buffers, const At& at,
                    BackwardPart part) const {
    Backend& backend = context.backend;
    const Tensor grad = output_gradient(context, grad_output, mlp_key_, dropped_, grad_whole_, at, part);
    if (part != BackwardPart::kWeight) {
      down_linear_.backward_input(context, buffers, grad, at(grad_activated_), parameters_);
      backend.activation_backward(activation_, at(up_out_), at(grad_activated_), at(grad_up_), at(activated_again_));
    }
    if (part != BackwardPart::kInput) {
      down_linear_.backward_weight(context, buffers, grad, at(activated_again_), parameters_);
      if (down_bias_ >= 0)
        backend.bias_gradient(local_gradient(grad_output, dropped_, context, at), gradient(down_bias_));
    }
    // In 8 bits the input of `up` is cheaper to compute again than to keep.
    if (normed2_again_ >= 0)
      backend.norm_forward(norm_, at(residual_), value(mlp_norm_), value(mlp_norm_bias_), epsilon(), at(normed2_again_),
                           at(mean2_), at(rstd2_));
    backward_column(context, at(grad_up_), up_linear_, normed2_again_ >= 0 ? normed2_again_ : normed2_, at(residual_),
                    mlp_norm_, mlp_norm_bias_, mean2_, rstd2_, grad_output, at(grad_residual_), buffers, at, part);
  }

  template <class At>
  void backward_attention(const StepContext& context, const Tensor& input, const Tensor& grad_input,
                          const LayerBuffers& buffers, const At& at, BackwardPart part) const {
    Backend& backend = context.backend;
    const Tensor grad =
        output_gradient(context, at(grad_residual_), projection_key_, dropped2_, grad_whole2_, at, part);
    if (part != BackwardPart::kWeight) {
      projection_linear_.backward_input(context, buffers, grad, at(grad_attention_), parameters_);
      backend.attention_backward(attention_, at(packed_), at(attention_out_), at(log_sum_exp_), at(grad_attention_),
                                 attention_dropout(context), context.microbatch.first_keys, at(grad_packed_),
                                 at(attention_workspace_backward_));
      if (context.rope_cosine.defined())
        backend.rope(at(grad_packed_), attention_, context.microbatch.positions, context.rope_cosine, context.rope_sine,
                     true);
      if (query_norm_ >= 0)
        backend.head_norm_backward(attention_, at(grad_packed_), at(raw_heads_), value(query_norm_), value(key_norm_),
                                   at(head_rstd_), gradient(query_norm_), gradient(key_norm_));
    }
    if (part != BackwardPart::kInput) {
      projection_linear_.backward_weight(context, buffers, grad, at(attention_out_), parameters_);
      if (projection_bias_ >= 0)
        backend.bias_gradient(local_gradient(at(grad_residual_), dropped2_, context, at), gradient(projection_bias_));
    }
    backward_column(context, at(grad_packed_), qkv_linear_, normed1_, input, input_norm_, input_norm_bias_, mean1_,
                    rstd1_, at(grad_residual_), grad_input, buffers, at, part);
  }

  // The rows of this rank of the gradient behind dropout, which the replicated bias sees.
  template <class At>
  Tensor local_gradient(const Tensor& grad, int dropped, const StepContext& context, const At& at) const {
    return context.training && shape_.spec.hidden_dropout > 0.0 ? at(dropped) : grad;
  }

  ModelShape shape_;
  std::string name_;
  NormKind norm_;
  Activation activation_;
  AttentionShape attention_;
  std::uint64_t attention_key_, projection_key_, mlp_key_;
  bool fused_residual_ = false;
  LayerInventory inventory_;
  std::vector<Parameter*> parameters_;
  BlockLinear qkv_linear_, projection_linear_, up_linear_, down_linear_;

  // Positions in the inventory's lists; -1: the layer has none.
  int input_norm_ = -1, input_norm_bias_ = -1, qkv_ = -1, qkv_bias_ = -1, projection_ = -1, projection_bias_ = -1;
  int query_norm_ = -1, key_norm_ = -1, raw_heads_ = -1, head_rstd_ = -1;
  int mlp_norm_ = -1, mlp_norm_bias_ = -1, up_ = -1, up_bias_ = -1, down_ = -1, down_bias_ = -1;
  int normed1_ = -1, mean1_ = -1, rstd1_ = -1, packed_ = -1, attention_out_ = -1, log_sum_exp_ = -1, residual_ = -1;
  int normed2_ = -1, normed2_again_ = -1, mean2_ = -1, rstd2_ = -1, up_out_ = -1;
  int activated_ = -1, partial_ = -1, partial_local_ = -1, gathered_forward_ = -1, attention_workspace_ = -1;
  int dropped_ = -1, dropped2_ = -1, grad_whole_ = -1, grad_whole2_ = -1, gathered_backward_ = -1,
      grad_normed_local_ = -1;
  int grad_activated_ = -1, activated_again_ = -1, grad_up_ = -1, grad_normed_ = -1, grad_residual_ = -1;
  int grad_attention_ = -1, grad_packed_ = -1, attention_workspace_backward_ = -1;
};

}  // namespace

std::unique_ptr<Layer> make_transformer_block(const ModelShape& shape, std::int64_t index) {
  return std::make_unique<TransformerBlock>(shape, index);
}

}  // namespace railyard
