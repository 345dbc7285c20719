// Output projection and vocabulary-parallel cross-entropy, by chunks of tokens.
#include "runtime/model/output_head.hpp"

#include <algorithm>

#include "runtime/model/embedding.hpp"
#include "runtime/model/linear.hpp"

namespace railyard {
namespace {

class OutputHead final : public Layer {
 public:
  OutputHead(const ModelShape& shape, const OutputHeadOptions& options)
      : shape_(shape), tied_here_(options.tied_here), norm_(norm_kind(shape.spec.norm)) {
    const ModelSpec& m = shape.spec;
    const std::int64_t n = shape.tokens(), local = shape.local_tokens();
    inventory_.parameters.push_back(
        replicated_vector(shape, "final_norm.weight", m.hidden, norm_ == NormKind::kLayerNorm1p ? 0.0F : 1.0F));
    if (m.norm_has_bias()) inventory_.parameters.push_back(replicated_vector(shape, "final_norm.bias", m.hidden, 0.0F));
    if (!tied_here_) {
      ParameterSpec weight = word_embedding_spec(shape, m.tied_embeddings ? "embedding.word_embeddings" : "output");
      weight.tied_copy = m.tied_embeddings;
      weight.overwrites_gradient = true;
      inventory_.parameters.push_back(std::move(weight));
    }
    const auto row_bytes = static_cast<std::int64_t>(dtype_size(shape.dtype)) * shape.vocab_rows();
    chunk_ = std::clamp<std::int64_t>(options.chunk_bytes / row_bytes / 64 * 64, std::min<std::int64_t>(64, n), n);
    const std::int64_t chunks = (n + chunk_ - 1) / chunk_;
    chunk_ = std::min(n, ((n + chunks - 1) / chunks + 63) / 64 * 64);  // chunks of about equal size

    const auto add = [&](const char* buffer, Shape extent, Lifetime lifetime, DType dtype) {
      inventory_.buffers.push_back({name_ + "." + buffer, dtype, extent, lifetime});
      return static_cast<int>(inventory_.buffers.size()) - 1;
    };
    if (norm_ != NormKind::kRmsNorm) mean_ = add("mean", Shape{local}, Lifetime::kSaved, DType::kFloat32);
    rstd_ = add("rstd", Shape{local}, Lifetime::kSaved, DType::kFloat32);
    grad_normed_ = add("grad_normed", Shape{local, m.hidden}, Lifetime::kSaved, shape.dtype);
    normed_ = add("normed", Shape{local, m.hidden}, Lifetime::kForward, shape.dtype);
    if (shape.sequence_parallel) {
      gathered_ = add("gathered", Shape{n, m.hidden}, Lifetime::kForward, shape.dtype);
      grad_partial_ = add("grad_partial", Shape{n, m.hidden}, Lifetime::kForward, shape.dtype);
    }
    logits_ = add("logits", Shape{chunk_, shape.vocab_rows()}, Lifetime::kForward, shape.dtype);
    statistics_ = add("statistics", Shape{chunk_, 3}, Lifetime::kForward, DType::kFloat32);
    if (shape.tp > 1)
      all_statistics_ = add("all_statistics", Shape{shape.tp, chunk_, 3}, Lifetime::kForward, DType::kFloat32);
    log_sum_exp_ = add("log_sum_exp", Shape{chunk_}, Lifetime::kForward, DType::kFloat32);
    inventory_.matmul_flops = 2.0 * static_cast<double>(n) * static_cast<double>(shape.vocab_rows() * m.hidden);
  }

  const std::string& name() const override { return name_; }
  const LayerInventory& inventory() const override { return inventory_; }
  void bind(std::vector<Parameter*> parameters) override { parameters_ = std::move(parameters); }

  void forward(const StepContext& context, const Tensor& input, const Tensor& /*output*/,
               const LayerBuffers& buffers) override {
    Backend& backend = context.backend;
    const auto at = [&](int index) { return index < 0 ? Tensor{} : buffers[static_cast<size_t>(index)]; };
    backend.norm_forward(norm_, input, norm_weight().value, norm_bias_value(), epsilon(), at(normed_), at(mean_),
                         at(rstd_));
    PendingGather gather = start_gather(context, shape_, at(normed_), at(gathered_));
    gather.handle.wait();
    const Tensor normed = gather.whole, grad_normed = shape_.sequence_parallel ? at(grad_partial_) : at(grad_normed_);
    for (std::int64_t begin = 0; begin < shape_.tokens(); begin += chunk_)
      chunk_loss(context, begin, std::min(chunk_, shape_.tokens() - begin), normed, grad_normed, at);
    if (!context.training) return;
    PendingReduce reduce = start_input_gradient_reduce(context, shape_, grad_normed, at(grad_normed_));
    reduce.handle.wait();
  }

  void backward(const StepContext& context, const Tensor& input, const Tensor& /*grad_output*/,
                const Tensor& grad_input, const LayerBuffers& buffers, BackwardPart part) override {
    if (part == BackwardPart::kWeight) return;  // done in forward, with the logits at hand
    const auto at = [&](int index) { return index < 0 ? Tensor{} : buffers[static_cast<size_t>(index)]; };
    const Tensor grad_bias = parameters_.size() > 2 ? parameters_[1]->gradient : Tensor{};
    context.backend.norm_backward(norm_, at(grad_normed_), input, norm_weight().value, at(mean_), at(rstd_), {},
                                  grad_input, norm_weight().gradient, grad_bias);
  }

  Tensor predict(const StepContext& context, const Tensor& input, const LayerBuffers& buffers) override {
    const auto at = [&](int index) { return index < 0 ? Tensor{} : buffers[static_cast<size_t>(index)]; };
    const std::int64_t rows = input.rows();
    const Tensor normed = at(normed_).row_range(0, rows), logits = at(logits_).row_range(0, rows);
    const Tensor mean = mean_ < 0 ? Tensor{} : at(mean_).flat(0, rows);
    context.backend.norm_forward(norm_, input, norm_weight().value, norm_bias_value(), epsilon(), normed, mean,
                                 at(rstd_).flat(0, rows));
    context.backend.gemm(linear_forward(normed, parameters_.back()->value, {}, {}, logits));
    return logits;
  }

 private:
  template <class At>
  void chunk_loss(const StepContext& context, std::int64_t begin, std::int64_t rows, const Tensor& normed,
                  const Tensor& grad_normed, const At& at) const {
    Backend& backend = context.backend;
    const Parameter& weight = *parameters_.back();
    const std::int64_t valid = shape_.valid_vocab_rows(), first = shape_.first_vocab_row();
    const Tensor x = normed.row_range(begin, rows), logits = at(logits_).row_range(0, rows);
    const Tensor labels = context.microbatch.labels.flat(begin, rows),
                 weights = context.microbatch.weights.flat(begin, rows);
    const Tensor statistics = at(statistics_).row_range(0, rows), log_sum_exp = at(log_sum_exp_).flat(0, rows);
    backend.gemm(linear_forward(x, weight.value, {}, {}, logits));
    backend.softmax_statistics(logits, valid, labels, first, statistics);
    Tensor parts = statistics.view(Shape{1, rows, 3});
    if (shape_.tp > 1) {
      parts = at(all_statistics_).flat(0, shape_.tp * rows * 3).view(Shape{shape_.tp, rows, 3});
      context.tp.all_gather(statistics, parts).wait();
    }
    backend.combine_statistics(parts, weights, log_sum_exp, context.loss);
    if (!context.training) return;
    backend.cross_entropy_gradient(logits, valid, labels, first, log_sum_exp, weights, context.gradient_factor);
    backend.gemm(linear_backward_input(logits, weight.value, grad_normed.row_range(begin, rows)));
    backend.gemm(linear_backward_weight(logits, x, weight.gradient, !context.weights_changed || begin > 0));
  }

  const Parameter& norm_weight() const { return *parameters_.front(); }
  Tensor norm_bias_value() const { return parameters_.size() > 2 ? parameters_[1]->value : Tensor{}; }
  float epsilon() const { return static_cast<float>(shape_.spec.norm_eps); }

  ModelShape shape_;
  bool tied_here_;
  NormKind norm_;
  std::string name_ = "output";
  LayerInventory inventory_;
  std::vector<Parameter*> parameters_;  // final norm weight (, bias), output weight
  std::int64_t chunk_ = 0;
  int mean_ = -1, rstd_ = -1, grad_normed_ = -1, normed_ = -1, gathered_ = -1, grad_partial_ = -1;
  int logits_ = -1, statistics_ = -1, all_statistics_ = -1, log_sum_exp_ = -1;
};

}  // namespace

std::unique_ptr<Layer> make_output_head(const ModelShape& shape, const OutputHeadOptions& options) {
  return std::make_unique<OutputHead>(shape, options);
}

}  // namespace railyard
