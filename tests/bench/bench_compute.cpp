// Time of each backend operation in the training step of two small Llama-style models, and its share of the step.
//
//   bench_compute [--threads N] [--bf16] [--repeat N] [first-train | 15m]...
//
// Prints the least of several runs, since other programs only ever add time.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "runtime/compute/backend.hpp"

namespace railyard {
namespace {

struct Case {
  const char* name;
  std::int64_t vocabulary, hidden, layers, heads, kv_heads, ffn, length, batch;
};

constexpr Case kCases[] = {{"first-train", 256, 256, 4, 8, 8, 688, 256, 8}, {"15m", 32000, 288, 6, 6, 6, 768, 256, 8}};

struct Row {
  std::string name;
  double seconds, flops;
  std::int64_t count;  // in a step
};

class Bench {
 public:
  Bench(const Case& shape, int threads, DType type, int repeat)
      : case_(shape), type_(type), repeat_(repeat), backend_(make_cpu_backend({.threads = threads})) {}

  void run() {
    matrix_products();
    layer_operations();
    loss_and_optimizer();
    double step = 0.0, flops = 0.0;
    for (const Row& row : rows_) {
      step += row.seconds * static_cast<double>(row.count);
      flops += row.flops * static_cast<double>(row.count);
    }
    fmt::print("{} on {}, {}\n", case_.name, backend_->description(), dtype_name(type_));
    std::sort(rows_.begin(), rows_.end(), [](const Row& a, const Row& b) {
      return a.seconds * static_cast<double>(a.count) > b.seconds * static_cast<double>(b.count);
    });
    for (const Row& row : rows_)
      fmt::print("  {:34} {:9.3f} ms x {:3} {:6.1f} %{}\n", row.name, row.seconds * 1e3, row.count,
                 100.0 * row.seconds * static_cast<double>(row.count) / step,
                 row.flops > 0.0 ? fmt::format("  {:6.1f} GFLOP/s", row.flops / row.seconds * 1e-9) : "");
    const auto tokens = static_cast<double>(case_.batch * case_.length);
    fmt::print("  sum {:.2f} ms, {:.0f} tokens/s, {:.1f} GFLOP/s\n", step * 1e3, tokens / step, flops / step * 1e-9);
  }

 private:
  Tensor tensor(const Shape& shape, DType type) {
    Tensor result{nullptr, type, shape};
    buffers_.push_back(backend_->allocate(result.bytes()));
    result.data = buffers_.back().data();
    if (type == DType::kFloat32 || type == DType::kBFloat16) {
      backend_->fill_normal(result, buffers_.size(), 0, 0, result.columns(), 0.0F, 1.0F);
    } else {
      backend_->zero(result);
    }
    return result;
  }
  Tensor tensor(const Shape& shape) { return tensor(shape, type_); }
  Tensor fp32(const Shape& shape) { return tensor(shape, DType::kFloat32); }

  void time(const std::string& name, std::int64_t count, double flops, const std::function<void()>& operation) {
    operation();
    double best = 1e30;
    for (int run = 0; run < repeat_; ++run) {
      const auto start = std::chrono::steady_clock::now();
      operation();
      best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    rows_.push_back({name, best, flops, count});
  }

  // y = x w^T with its two gradients.
  void linear(const std::string& name, std::int64_t in, std::int64_t out, std::int64_t count, bool residual) {
    const std::int64_t n = case_.batch * case_.length;
    const Tensor x = tensor(Shape{n, in}), w = tensor(Shape{out, in}), y = tensor(Shape{n, out});
    const Tensor grad_w = fp32(Shape{out, in}), stream = tensor(Shape{n, out});
    const double flops = 2.0 * static_cast<double>(n) * static_cast<double>(in) * static_cast<double>(out);
    Gemm forward, input, weight;
    forward.a = x;
    forward.b = w;
    forward.transpose_b = true;
    forward.d = y;
    if (residual) forward.addend = stream;
    time(name + " forward", count, flops, [&] { backend_->gemm(forward); });
    input.a = y;
    input.b = w;
    input.d = x;
    time(name + " input gradient", count, flops, [&] { backend_->gemm(input); });
    weight.a = y;
    weight.transpose_a = true;
    weight.b = x;
    weight.d = grad_w;
    weight.accumulate = true;
    time(name + " weight gradient", count, flops, [&] { backend_->gemm(weight); });
  }

  void matrix_products() {
    const Case& c = case_;
    const std::int64_t d = c.hidden / c.heads;
    linear("qkv", c.hidden, (c.heads + 2 * c.kv_heads) * d, c.layers, false);
    linear("projection", c.heads * d, c.hidden, c.layers, true);
    linear("gate and up", c.hidden, 2 * c.ffn, c.layers, false);
    linear("down", c.ffn, c.hidden, c.layers, true);
    linear("head", c.hidden, c.vocabulary, 1, false);
  }

  void layer_operations() {
    const Case& c = case_;
    const std::int64_t n = c.batch * c.length, norms = 2 * c.layers + 1;
    const Tensor x = tensor(Shape{n, c.hidden}), y = tensor(Shape{n, c.hidden}), w = tensor(Shape{c.hidden});
    const Tensor rstd = fp32(Shape{n}), grad_w = fp32(Shape{c.hidden}), grad = tensor(Shape{n, c.hidden});
    time("norm forward", norms, 0.0, [&] { backend_->norm_forward(NormKind::kRmsNorm, x, w, {}, 1e-5F, y, {}, rstd); });
    time("norm backward", norms, 0.0,
         [&] { backend_->norm_backward(NormKind::kRmsNorm, y, x, w, {}, rstd, grad, grad, grad_w, {}); });

    AttentionShape shape;
    shape.batch = c.batch;
    shape.length = c.length;
    shape.q_heads = c.heads;
    shape.kv_heads = c.kv_heads;
    shape.d_qk = shape.d_v = c.hidden / c.heads;
    shape.scale = 1.0F / std::sqrt(static_cast<float>(shape.d_qk));
    const Tensor packed = tensor(Shape{n, shape.packed_columns()}),
                 grad_packed = tensor(Shape{n, shape.packed_columns()});
    const Tensor out = tensor(Shape{n, shape.output_columns()}), grad_out = tensor(Shape{n, shape.output_columns()});
    const Tensor lse = fp32(Shape{c.batch, c.heads, c.length}), positions = tensor(Shape{n}, DType::kInt32);
    const Tensor cosine = fp32(Shape{c.length, shape.d_qk / 2}), sine = fp32(Shape{c.length, shape.d_qk / 2});
    time("rope", 2 * c.layers, 0.0, [&] { backend_->rope(packed, shape, positions, cosine, sine, false); });
    backend_->fill_normal(packed, 1, 0, 0, packed.columns(), 0.0F, 1.0F);
    const Tensor forward =
        tensor(Shape{static_cast<std::int64_t>(backend_->attention_workspace(shape, type_, false))}, DType::kUInt8);
    const Tensor backward =
        tensor(Shape{static_cast<std::int64_t>(backend_->attention_workspace(shape, type_, true))}, DType::kUInt8);
    const double flops = 2.0 * static_cast<double>(n * c.length) * static_cast<double>(c.hidden);
    time("attention forward", c.layers, flops,
         [&] { backend_->attention_forward(shape, packed, {}, {}, out, lse, forward); });
    time("attention backward", c.layers, 2.0 * flops,
         [&] { backend_->attention_backward(shape, packed, out, lse, grad_out, {}, {}, grad_packed, backward); });

    const Tensor u = tensor(Shape{n, 2 * c.ffn}), grad_u = tensor(Shape{n, 2 * c.ffn});
    const Tensor s = tensor(Shape{n, c.ffn}), grad_s = tensor(Shape{n, c.ffn});
    time("swiglu forward", c.layers, 0.0, [&] { backend_->activation_forward(Activation::kSwiglu, u, s); });
    time("swiglu backward", c.layers, 0.0,
         [&] { backend_->activation_backward(Activation::kSwiglu, u, grad_s, grad_u, s); });
  }

  void loss_and_optimizer() {
    const Case& c = case_;
    const std::int64_t n = c.batch * c.length;
    const Tensor logits = tensor(Shape{n, c.vocabulary}), labels = tensor(Shape{n}, DType::kInt32);
    const Tensor statistics = fp32(Shape{n, 3}), lse = fp32(Shape{n}), weights = fp32(Shape{n}),
                 loss = tensor(Shape{1}, DType::kFloat64);
    time("softmax statistics", 1, 0.0,
         [&] { backend_->softmax_statistics(logits, c.vocabulary, labels, 0, statistics); });
    time("combine statistics", 1, 0.0, [&] { backend_->combine_statistics(statistics, weights, lse, loss); });
    time("cross entropy gradient", 1, 0.0,
         [&] { backend_->cross_entropy_gradient(logits, c.vocabulary, labels, 0, lse, weights, 1e-3F); });

    std::vector<std::int32_t> tokens(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = static_cast<std::int32_t>(i * 7919 % static_cast<std::size_t>(c.vocabulary));
    const Tensor ids = tensor(Shape{n}, DType::kInt32);
    backend_->copy_from_host(std::as_bytes(std::span(tokens)), ids);
    const Tensor table = tensor(Shape{c.vocabulary, c.hidden}), x = tensor(Shape{n, c.hidden}),
                 grad_table = fp32(Shape{c.vocabulary, c.hidden});
    time("embedding forward", 1, 0.0, [&] { backend_->embedding_forward(ids, table, 0, false, x); });
    time("embedding backward", 1, 0.0, [&] { backend_->embedding_backward(ids, x, 0, grad_table); });

    const std::int64_t d = c.hidden / c.heads;
    const std::int64_t parameters = 2 * c.vocabulary * c.hidden +
                                    c.layers * (c.hidden * (c.heads + 2 * c.kv_heads) * d + c.heads * d * c.hidden +
                                                3 * c.hidden * c.ffn + 2 * c.hidden) +
                                    c.hidden;
    AdamW adam;
    adam.exp_avg = fp32(Shape{parameters});
    adam.exp_avg_sq = fp32(Shape{parameters});
    adam.grad = fp32(Shape{parameters});
    backend_->fill(adam.exp_avg_sq, 1.0F);
    adam.parameter = tensor(Shape{parameters});
    if (type_ != DType::kFloat32) adam.remainder = tensor(Shape{parameters}, DType::kUInt16);
    const OptimizerScalars scalars{fp32(Shape{OptimizerScalars::kCount})};
    backend_->fill(scalars.values, 0.5F);
    const Tensor sum = tensor(Shape{1}, DType::kFloat64);
    time("zero gradients", 1, 0.0, [&] { backend_->zero(adam.grad); });
    time("squared norm", 1, 0.0, [&] { backend_->squared_norm(adam.grad, sum); });
    time("adamw", 1, 0.0, [&] { backend_->adamw(adam, scalars); });
  }

  Case case_;
  DType type_;
  int repeat_;
  std::unique_ptr<Backend> backend_;
  std::vector<Buffer> buffers_;
  std::vector<Row> rows_;
};

}  // namespace
}  // namespace railyard

int main(int argc, char** argv) {
  int threads = 2, repeat = 15;
  railyard::DType type = railyard::DType::kFloat32;
  std::vector<std::string> wanted;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--threads" && i + 1 < argc) {
      threads = std::atoi(argv[++i]);
    } else if (argument == "--repeat" && i + 1 < argc) {
      repeat = std::atoi(argv[++i]);
    } else if (argument == "--bf16") {
      type = railyard::DType::kBFloat16;
    } else {
      wanted.push_back(argument);
    }
  }
  for (const railyard::Case& shape : railyard::kCases)
    if (wanted.empty() || std::find(wanted.begin(), wanted.end(), shape.name) != wanted.end())
      railyard::Bench(shape, threads, type, repeat).run();
}
