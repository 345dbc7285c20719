// Times every operation of a transformer layer on the GPU at the shapes of one model, beside the ceilings measured in
// the same run: a large product for work bound by arithmetic, a large copy for work bound by memory.
//
//   bench_operations [--json FILE] [--only NAME]
//
// The shapes: 2 samples of 4096 tokens, 4096 wide, 32 heads and 8 key heads of 128, MLP of 14336, 32000 words.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "runtime/base/json.hpp"
#include "runtime/comm/load.hpp"

namespace railyard {
namespace {

constexpr std::int64_t kBatch = 2, kLength = 4096, kTokens = kBatch * kLength, kHidden = 4096, kFfn = 14336,
                       kVocab = 32000;
constexpr AttentionShape kAttention{
    .batch = kBatch, .length = kLength, .q_heads = 32, .kv_heads = 8, .d_qk = 128, .d_v = 128, .scale = 0.08838834764F};

class Bench {
 public:
  Bench(Backend& backend, std::string only) : backend_(backend), only_(std::move(only)) {}

  Tensor tensor(DType type, const Shape& shape) {
    Tensor t{nullptr, type, shape};
    memory_.push_back(backend_.allocate(t.bytes()));
    t.data = memory_.back().data();
    return t;
  }
  // Normal numbers: arithmetic on zeros draws less power and runs faster than training does.
  Tensor normal(DType type, const Shape& shape, float deviation = 1.0F) {
    const Tensor t = tensor(type, shape);
    backend_.fill_normal(t.view(Shape{t.rows(), t.columns()}), ++key_, 0, 0, t.columns(), 0.0F, deviation);
    return t;
  }
  template <class T>
  Tensor integers(DType type, std::int64_t count, const std::function<T(std::int64_t)>& value) {
    std::vector<T> numbers;
    for (std::int64_t i = 0; i < count; ++i) numbers.push_back(value(i));
    const Tensor t = tensor(type, Shape{count});
    backend_.copy_from_host(std::as_bytes(std::span(numbers)), t);
    return t;
  }

  // The median of seven times of enough repeats to fill 10 ms. `flops` or `bytes` of one run; the other is 0.
  double run(const std::string& name, double flops, double bytes, const std::function<void()>& operation) {
    if (!only_.empty() && name.find(only_) == std::string::npos && name.rfind("ceiling", 0) != 0) return 0.0;
    const double first = seconds(operation, 1);  // with the choice of an algorithm, the loading of code
    const double once = seconds(operation, 3);
    const int repeats = std::clamp(static_cast<int>(0.01 / once), 1, 200);
    std::vector<double> times;
    for (int i = 0; i < 7; ++i) times.push_back(seconds(operation, repeats));
    std::sort(times.begin(), times.end());
    const double time = times[times.size() / 2];
    if (name == "ceiling product") product_ = flops / time;
    if (name == "ceiling copy") copy_ = bytes / time;
    const double ceiling = flops > 0.0 ? product_ : copy_, rate = (flops > 0.0 ? flops : bytes) / time;
    std::printf("%-44s %9.1f us %8.1f %-7s %5.1f %% of the ceiling, %6.1f ms at first\n", name.c_str(), time * 1e6,
                rate / (flops > 0.0 ? 1e12 : 1e9), flops > 0.0 ? "TFLOP/s" : "GB/s", 100.0 * rate / ceiling,
                first * 1e3);
    std::fflush(stdout);
    results_.push_back({{"name", name}, {"seconds", time}, {"rate", rate}, {"of_ceiling", rate / ceiling}});
    return time;
  }
  [[nodiscard]] const Json& results() const { return results_; }
  // Gives the memory of a group of operations back.
  void clear() {
    backend_.synchronize();
    memory_.clear();
  }

 private:
  double seconds(const std::function<void()>& operation, int repeats) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < repeats; ++i) operation();
    backend_.synchronize();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / repeats;
  }

  Backend& backend_;
  std::string only_;
  std::vector<Buffer> memory_;
  std::uint64_t key_ = 0;
  double product_ = 0.0, copy_ = 0.0;
  Json results_ = Json::array();
};

constexpr DType kBf16 = DType::kBFloat16, kFp32 = DType::kFloat32;

void ceilings(Bench& bench, Backend& backend) {
  const Tensor from = bench.tensor(DType::kUInt8, Shape{std::int64_t{1} << 31}),
               to = bench.tensor(DType::kUInt8, Shape{std::int64_t{1} << 31});
  bench.run("ceiling copy", 0.0, 2.0 * static_cast<double>(from.bytes()), [&] { backend.copy(from, to); });
  bench.clear();
  constexpr std::int64_t kSize = 8192;
  const Tensor a = bench.normal(kBf16, Shape{kSize, kSize}), b = bench.normal(kBf16, Shape{kSize, kSize});
  const Tensor d = bench.tensor(kBf16, Shape{kSize, kSize});
  bench.run("ceiling product", 2.0 * kSize * kSize * kSize, 0.0,
            [&] { backend.gemm({.a = a, .b = b, .transpose_b = true, .d = d}); });
  bench.clear();
}

void products(Bench& bench, Backend& backend) {
  struct Linear {
    const char* name;
    std::int64_t out, in;
    bool adds_residual;
  };
  for (const Linear& l : {Linear{"qkv", 6144, kHidden, false}, Linear{"proj", kHidden, kHidden, true},
                          Linear{"up", 2 * kFfn, kHidden, false}, Linear{"down", kHidden, kFfn, true},
                          Linear{"head", kVocab, kHidden, false}}) {
    const Tensor x = bench.normal(kBf16, Shape{kTokens, l.in}), w = bench.normal(kBf16, Shape{l.out, l.in}, 0.02F);
    const Tensor y = bench.normal(kBf16, Shape{kTokens, l.out}), grad_x = bench.tensor(kBf16, Shape{kTokens, l.in});
    const Tensor residual = bench.normal(kBf16, Shape{kTokens, l.out}),
                 grad_w = bench.normal(kFp32, Shape{l.out, l.in});
    const double flops = 2.0 * static_cast<double>(kTokens * l.out * l.in);
    const std::string name = std::string("gemm ") + l.name;
    bench.run(name + " backward input", flops, 0.0, [&] { backend.gemm({.a = y, .b = w, .d = grad_x}); });
    bench.run(name + " backward weight, accumulating", flops, 0.0,
              [&] { backend.gemm({.a = y, .transpose_a = true, .b = x, .d = grad_w, .accumulate = true}); });
    bench.run(name + " forward", flops, 0.0, [&] {
      backend.gemm({.a = x, .b = w, .transpose_b = true, .d = y, .addend = l.adds_residual ? residual : Tensor{}});
    });
    bench.clear();
  }
}

// 8-bit copies in both orientations, and the products of the widest layer with them.
void eight_bit(Bench& bench, Backend& backend) {
  const auto copy_of = [&](DType type, const Shape& shape, Scaling scaling) {
    Tensor t = bench.tensor(type, shape);
    t.scale = bench.normal(kFp32, scales_shape(scaling, shape[0], shape[1])).as<float>();
    return t;
  };
  constexpr DType kE4m3 = DType::kFloat8E4M3, kE5m2 = DType::kFloat8E5M2;
  constexpr std::int64_t kOut = 2 * kFfn;
  const Tensor x = bench.normal(kBf16, Shape{kTokens, kHidden}), w = bench.normal(kBf16, Shape{kOut, kHidden}, 0.02F);
  const Tensor grad = bench.normal(kBf16, Shape{kTokens, kOut}), maximum = bench.tensor(kFp32, Shape{1});
  backend.zero(maximum);
  const auto bytes = static_cast<double>(x.bytes());
  bench.run("amax", 0.0, bytes, [&] { backend.amax(x, maximum); });
  const double flops = 2.0 * static_cast<double>(kTokens * kOut * kHidden);
  const Tensor y = bench.tensor(kBf16, Shape{kTokens, kOut}), grad_x = bench.tensor(kBf16, Shape{kTokens, kHidden});
  const Tensor grad_w = bench.normal(kFp32, Shape{kOut, kHidden});
  for (const Scaling scaling : {Scaling::kTensor, Scaling::kRow128}) {
    const bool one = scaling == Scaling::kTensor;
    const std::string name = one ? "" : " 1x128";
    const Tensor x8 = copy_of(kE4m3, x.shape, scaling), xt = copy_of(kE4m3, Shape{kHidden, kTokens}, scaling);
    const Tensor w8 = copy_of(kE4m3, w.shape, scaling), wt = copy_of(kE4m3, Shape{kHidden, kOut}, scaling);
    const DType gradient = one ? kE5m2 : kE4m3;
    const Tensor g8 = copy_of(gradient, grad.shape, scaling), gt = copy_of(gradient, Shape{kOut, kTokens}, scaling);
    const auto quantize = [&](const Tensor& in, const Tensor& out, Tensor turned) {
      if (!one) return backend.quantize_blocks(scaling, in, out, turned);
      turned.scale = out.scale;
      backend.fill({const_cast<float*>(out.scale), kFp32, Shape{1}}, 0.01F);
      backend.quantize(in, out, turned, maximum);
    };
    quantize(w, w8, wt);
    quantize(grad, g8, gt);
    bench.run("quantize both ways" + name, 0.0, 2.0 * bytes, [&] { quantize(x, x8, xt); });
    const auto product = [&](const Tensor& a, const Tensor& b, const Tensor& d, bool accumulate, bool fast) {
      backend.gemm({.a = a,
                    .b = b,
                    .transpose_b = true,
                    .d = d,
                    .accumulate = accumulate,
                    .a_scaling = scaling,
                    .b_scaling = scaling,
                    .fast_accumulation = fast});
    };
    const auto turned = [&](Tensor t, const Tensor& scaled) {
      if (one) t.scale = scaled.scale;
      return t;
    };
    bench.run("8-bit up forward, fast" + name, flops, 0.0, [&] { product(x8, w8, y, false, true); });
    bench.run("8-bit up backward input" + name, flops, 0.0, [&] { product(g8, turned(wt, w8), grad_x, false, false); });
    bench.run("8-bit up backward weight, accumulating" + name, flops, 0.0,
              [&] { product(turned(gt, g8), turned(xt, x8), grad_w, true, false); });
  }
  bench.clear();
}

void attention(Bench& bench, Backend& backend) {
  const Tensor packed = bench.normal(kBf16, Shape{kTokens, kAttention.packed_columns()});
  const Tensor out = bench.tensor(kBf16, Shape{kTokens, kAttention.output_columns()});
  const Tensor grad_out = bench.normal(kBf16, Shape{kTokens, kAttention.output_columns()});
  const Tensor grad_packed = bench.tensor(kBf16, Shape{kTokens, kAttention.packed_columns()});
  const Tensor lse = bench.tensor(kFp32, Shape{kBatch, kAttention.q_heads, kLength});
  const auto bytes = [&](bool backward) {
    return static_cast<std::int64_t>(
        std::max<std::size_t>(1, backend.attention_workspace(kAttention, kBf16, backward)));
  };
  const Tensor forward = bench.tensor(DType::kUInt8, Shape{bytes(false)}),
               backward = bench.tensor(DType::kUInt8, Shape{bytes(true)});
  const double flops = 2.0 * static_cast<double>(kBatch * kAttention.q_heads * kLength * kLength * kAttention.d_qk);
  bench.run("attention forward", flops, 0.0,
            [&] { backend.attention_forward(kAttention, packed, {}, {}, out, lse, forward); });
  bench.run("attention backward", 2.5 * flops, 0.0,
            [&] { backend.attention_backward(kAttention, packed, out, lse, grad_out, {}, {}, grad_packed, backward); });
  const Tensor positions = bench.integers<std::int32_t>(
      DType::kInt32, kTokens, [](std::int64_t i) { return static_cast<std::int32_t>(i % kLength); });
  const Tensor cosine = bench.normal(kFp32, Shape{kLength, 64}), sine = bench.normal(kFp32, Shape{kLength, 64});
  bench.run("rope", 0.0, 2.0 * 2.0 * static_cast<double>(kTokens * 40 * 128),
            [&] { backend.rope(packed, kAttention, positions, cosine, sine, false); });
  bench.clear();
}

void norms(Bench& bench, Backend& backend) {
  const Shape matrix{kTokens, kHidden};
  const Tensor x = bench.normal(kBf16, matrix), y = bench.tensor(kBf16, matrix), grad = bench.normal(kBf16, matrix);
  const Tensor addend = bench.normal(kBf16, matrix), grad_x = bench.tensor(kBf16, matrix),
               weight = bench.normal(kBf16, Shape{kHidden});
  const Tensor mean = bench.tensor(kFp32, Shape{kTokens}), rstd = bench.tensor(kFp32, Shape{kTokens});
  const Tensor grad_weight = bench.normal(kFp32, Shape{kHidden}), grad_bias = bench.normal(kFp32, Shape{kHidden});
  const auto one = static_cast<double>(x.bytes());
  for (const NormKind kind : {NormKind::kRmsNorm, NormKind::kLayerNorm}) {
    const bool rms = kind == NormKind::kRmsNorm;
    const std::string name = rms ? "rmsnorm" : "layernorm";
    const Tensor bias = rms ? Tensor{} : weight;
    bench.run(name + " forward", 0.0, 2.0 * one,
              [&] { backend.norm_forward(kind, x, weight, bias, 1e-5F, y, mean, rstd); });
    bench.run(name + " backward", 0.0, 4.0 * one, [&] {
      backend.norm_backward(kind, grad, x, weight, mean, rstd, addend, grad_x, grad_weight, rms ? Tensor{} : grad_bias);
    });
  }
  bench.run("bias_gradient", 0.0, one, [&] { backend.bias_gradient(grad, grad_bias); });
  bench.run("residual_add", 0.0, 3.0 * one, [&] { backend.residual_add(x, weight, {}, grad, y); });
  const Tensor samples =
      bench.integers<std::int64_t>(DType::kInt64, kTokens, [](std::int64_t i) { return i / kLength; });
  const Tensor positions = bench.integers<std::int32_t>(
      DType::kInt32, kTokens, [](std::int64_t i) { return static_cast<std::int32_t>(i % kLength); });
  const Dropout dropout{.probability = 0.1F, .key = 7, .sample_ids = samples, .positions = positions};
  bench.run("residual_add with dropout", 0.0, 3.0 * one, [&] { backend.residual_add(x, weight, dropout, grad, y); });
  bench.run("add", 0.0, 3.0 * one, [&] { backend.add(x, grad, y); });
  const Tensor wide = bench.normal(kFp32, matrix);
  bench.run("cast fp32 to bf16", 0.0, 3.0 * one, [&] { backend.cast(wide, y); });
  bench.clear();
}

void activations(Bench& bench, Backend& backend) {
  for (const auto& [name, kind] :
       {std::pair{"swiglu", Activation::kSwiglu}, std::pair{"gelu_tanh", Activation::kGeluTanh}}) {
    const std::int64_t wide = is_gated(kind) ? 2 * kFfn : kFfn;
    const Tensor u = bench.normal(kBf16, Shape{kTokens, wide}), grad_u = bench.tensor(kBf16, Shape{kTokens, wide});
    const Tensor s = bench.normal(kBf16, Shape{kTokens, kFfn}), again = bench.tensor(kBf16, Shape{kTokens, kFfn});
    const auto us = static_cast<double>(u.bytes()), ss = static_cast<double>(s.bytes());
    bench.run(std::string(name) + " forward", 0.0, us + ss, [&] { backend.activation_forward(kind, u, again); });
    bench.run(std::string(name) + " backward", 0.0, 2.0 * us + 2.0 * ss,
              [&] { backend.activation_backward(kind, u, s, grad_u, again); });
    bench.clear();
  }
}

void embedding_and_loss(Bench& bench, Backend& backend) {
  const Tensor ids = bench.integers<std::int32_t>(
      DType::kInt32, kTokens, [](std::int64_t i) { return static_cast<std::int32_t>((i * 7919) % kVocab); });
  // A quarter of the tokens are one word, as in text of characters.
  const Tensor frequent = bench.integers<std::int32_t>(
      DType::kInt32, kTokens, [](std::int64_t i) { return static_cast<std::int32_t>(i % 4 == 0 ? 5 : i % kVocab); });
  const Tensor table = bench.normal(kBf16, Shape{kVocab, kHidden}), out = bench.tensor(kBf16, Shape{kTokens, kHidden});
  const Tensor grad = bench.normal(kBf16, Shape{kTokens, kHidden}),
               grad_table = bench.normal(kFp32, Shape{kVocab, kHidden});
  const auto one = static_cast<double>(grad.bytes());
  bench.run("embedding forward", 0.0, 2.0 * one, [&] { backend.embedding_forward(ids, table, 0, false, out); });
  bench.run("embedding backward", 0.0, 5.0 * one, [&] { backend.embedding_backward(ids, grad, 0, grad_table); });
  bench.run("embedding backward, one frequent word", 0.0, 4.0 * one,
            [&] { backend.embedding_backward(frequent, grad, 0, grad_table); });
  bench.clear();
  constexpr std::int64_t kRows = 4096;
  const Tensor logits = bench.normal(kBf16, Shape{kRows, kVocab}), weights = bench.normal(kFp32, Shape{kRows});
  const Tensor labels = bench.integers<std::int32_t>(
      DType::kInt32, kRows, [](std::int64_t i) { return static_cast<std::int32_t>((i * 31) % kVocab); });
  const Tensor statistics = bench.tensor(kFp32, Shape{kRows, 3}), lse = bench.normal(kFp32, Shape{kRows});
  const Tensor loss = bench.tensor(DType::kFloat64, Shape{1});
  backend.zero(loss);
  const auto bytes = static_cast<double>(logits.bytes());
  bench.run("softmax statistics", 0.0, bytes,
            [&] { backend.softmax_statistics(logits, kVocab, labels, 0, statistics); });
  bench.run("combine statistics", 0.0, 16.0 * kRows, [&] {
    backend.combine_statistics(statistics.view(Shape{1, kRows, 3}), weights, lse, loss);
  });
  bench.run("cross entropy gradient", 0.0, 2.0 * bytes,
            [&] { backend.cross_entropy_gradient(logits, kVocab, labels, 0, lse, weights, 1e-4F); });
  bench.clear();
}

void optimizer(Bench& bench, Backend& backend) {
  constexpr std::int64_t kCount = std::int64_t{256} << 20;
  const Shape flat{kCount};
  const AdamW step{.parameter = bench.normal(kBf16, flat),
                   .remainder = bench.tensor(DType::kUInt16, flat),
                   .exp_avg = bench.normal(kFp32, flat),
                   .exp_avg_sq = bench.tensor(kFp32, flat),
                   .grad = bench.normal(kFp32, flat)};
  backend.fill(step.exp_avg_sq, 1.0F);
  const OptimizerScalars scalars{bench.tensor(kFp32, Shape{OptimizerScalars::kCount})};
  const Tensor sum = bench.tensor(DType::kFloat64, Shape{1});
  backend.fill(scalars.values, 1e-3F);
  bench.run("adamw", 0.0, 28.0 * kCount, [&] { backend.adamw(step, scalars); });
  bench.run("squared norm", 0.0, 4.0 * kCount, [&] {
    backend.zero(sum);
    backend.squared_norm(step.grad, sum);
  });
  bench.run("zero", 0.0, 4.0 * kCount, [&] { backend.zero(step.grad); });
  bench.run("fill_normal fp32", 0.0, 4.0 * kCount,
            [&] { backend.fill_normal(step.grad, 3, 0, 0, kCount, 0.0F, 1.0F); });
  bench.clear();
}

int run(int count, char** words) {
  std::string json, only;
  for (int i = 1; i < count; ++i) {
    const bool value = i + 1 < count;
    if (value && std::strcmp(words[i], "--json") == 0)
      json = words[++i];
    else if (value && std::strcmp(words[i], "--only") == 0)
      only = words[++i];
    else
      throw UsageError("{}: unknown; usage: bench_operations [--json FILE] [--only NAME]", words[i]);
  }
  const auto backend = make_cuda_backend({});
  std::printf("%s\n", backend->description().c_str());
  Bench bench(*backend, only);
  ceilings(bench, *backend);
  for (const auto& part : {products, eight_bit, attention, norms, activations, embedding_and_loss, optimizer})
    part(bench, *backend);
  if (!json.empty())
    write_file_atomic(json, Json{{"device", backend->description()}, {"operations", bench.results()}}.dump(1) + "\n");
  return kExitDone;
}

}  // namespace
}  // namespace railyard

int main(int count, char** words) {
  try {
    return railyard::run(count, words);
  } catch (const railyard::Error& error) {
    std::fprintf(stderr, "bench_operations: %s\n", error.what());
    return error.exit_code();
  }
}
