// Token and position embedding.
#include "runtime/model/embedding.hpp"

#include "runtime/base/philox.hpp"
#include "runtime/model/linear.hpp"

namespace railyard {

ParameterSpec word_embedding_spec(const ModelShape& shape, const std::string& name) {
  ParameterSpec spec{.name = name,
                     .rows = shape.vocab_rows(),
                     .columns = shape.spec.hidden,
                     .decay = true,
                     .split_over_tp = shape.tp > 1};
  const std::int64_t valid = shape.valid_vocab_rows();
  if (valid > 0)
    spec.pieces.push_back({.name = name + ".weight",
                           .logical_rows = shape.spec.vocab,
                           .logical_columns = shape.spec.hidden,
                           .first_row = shape.first_vocab_row(),
                           .rows = valid,
                           .deviation = static_cast<float>(shape.spec.init_std)});
  return spec;
}

namespace {

class Embedding final : public Layer {
 public:
  explicit Embedding(const ModelShape& shape) : shape_(shape), key_(stream_key(shape.seed, "embedding.dropout")) {
    inventory_.parameters.push_back(word_embedding_spec(shape, "embedding.word_embeddings"));
    if (shape.spec.position == "learned") {
      ParameterSpec positions{.name = "embedding.position_embeddings",
                              .rows = shape.spec.max_positions,
                              .columns = shape.spec.hidden,
                              .decay = true,
                              .sum_over_tp = shape.sequence_parallel};
      positions.pieces.push_back({.name = positions.name + ".weight",
                                  .logical_rows = positions.rows,
                                  .logical_columns = positions.columns,
                                  .rows = positions.rows,
                                  .deviation = static_cast<float>(shape.spec.init_std)});
      inventory_.parameters.push_back(std::move(positions));
    }
    const auto add = [&](const char* buffer, std::int64_t rows, Lifetime lifetime) {
      inventory_.buffers.push_back({name_ + "." + buffer, shape_.dtype, Shape{rows, shape_.spec.hidden}, lifetime});
      return static_cast<int>(inventory_.buffers.size()) - 1;
    };
    if (shape.sequence_parallel) {
      whole_ = add("partial", shape.tokens(), Lifetime::kForward);
      grad_whole_ = add("grad_gathered", shape.tokens(), Lifetime::kBackward);
    }
    if (shape.spec.hidden_dropout > 0.0) dropped_ = add("grad_dropped", shape.local_tokens(), Lifetime::kBackward);
  }

  const std::string& name() const override { return name_; }
  const LayerInventory& inventory() const override { return inventory_; }
  void bind(std::vector<Parameter*> parameters) override { parameters_ = std::move(parameters); }

  void forward(const StepContext& context, const Tensor& /*input*/, const Tensor& output,
               const LayerBuffers& buffers) override {
    Backend& backend = context.backend;
    const Tensor whole = shape_.sequence_parallel ? buffers[static_cast<size_t>(whole_)] : output;
    backend.embedding_forward(context.microbatch.ids, parameters_[0]->value, shape_.first_vocab_row(), false, whole);
    if (shape_.sequence_parallel) {
      context.tp.reduce_scatter(whole, output).wait();
    } else if (shape_.tp > 1) {
      context.tp.all_reduce(whole, ReduceOp::kSum).wait();
    }
    if (parameters_.size() > 1)
      backend.embedding_forward(local_positions(context), parameters_[1]->value, 0, true, output);
    if (context.training && shape_.spec.hidden_dropout > 0.0) backend.dropout(output, dropout(context), output);
  }

  void backward(const StepContext& context, const Tensor& /*input*/, const Tensor& grad_output,
                const Tensor& /*grad_input*/, const LayerBuffers& buffers, BackwardPart part) override {
    if (part == BackwardPart::kInput) return;  // there is no input: everything here is a weight gradient
    Backend& backend = context.backend;
    Tensor grad = grad_output;
    if (shape_.spec.hidden_dropout > 0.0) {
      grad = buffers[static_cast<size_t>(dropped_)];
      backend.dropout(grad_output, dropout(context), grad);
    }
    PendingGather gather = start_gather(context, shape_, grad,
                                        shape_.sequence_parallel ? buffers[static_cast<size_t>(grad_whole_)] : grad);
    if (parameters_.size() > 1) backend.embedding_backward(local_positions(context), grad, 0, parameters_[1]->gradient);
    gather.handle.wait();
    backend.embedding_backward(context.microbatch.ids, gather.whole, shape_.first_vocab_row(),
                               parameters_[0]->gradient);
  }

 private:
  Tensor local_positions(const StepContext& context) const {
    return context.microbatch.positions.flat(shape_.first_local_token(), shape_.local_tokens());
  }
  Dropout dropout(const StepContext& context) const {
    return {static_cast<float>(shape_.spec.hidden_dropout), key_,
            context.microbatch.sample_ids.flat(shape_.first_local_token(), shape_.local_tokens()),
            local_positions(context), 0};
  }

  ModelShape shape_;
  std::string name_ = "embedding";
  std::uint64_t key_;
  LayerInventory inventory_;
  std::vector<Parameter*> parameters_;
  int whole_ = -1, grad_whole_ = -1, dropped_ = -1;
};

}  // namespace

std::unique_ptr<Layer> make_embedding(const ModelShape& shape) { return std::make_unique<Embedding>(shape); }

}  // namespace railyard
