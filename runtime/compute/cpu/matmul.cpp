// oneDNN behind Matmul: descriptors of transposed operands, post-operations, and the table of primitives.
#include "runtime/compute/cpu/matmul.hpp"

#include <omp.h>

#include <array>
#include <cstring>
#include <map>
#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

namespace railyard::cpu {
namespace {

using dnnl::memory;

memory::data_type data_type(DType type) {
  RAILYARD_CHECK(type == DType::kFloat32 || type == DType::kBFloat16, "{} in a matrix product", dtype_name(type));
  return type == DType::kFloat32 ? memory::data_type::f32 : memory::data_type::bf16;
}

// Everything that a primitive is made for.
struct Problem {
  memory::dim m, n, k;
  bool transpose_a, transpose_b, accumulate;
  DType a, b, d;
  bool has_bias;
  DType bias;
  auto operator<=>(const Problem&) const = default;
};

memory::desc operand(memory::dim rows, memory::dim columns, DType type, bool transposed) {
  return {{rows, columns}, data_type(type), transposed ? memory::dims{1, rows} : memory::dims{columns, 1}};
}

dnnl::matmul make_primitive(const dnnl::engine& engine, const Problem& p) {
  const memory::desc a = operand(p.m, p.k, p.a, p.transpose_a), b = operand(p.k, p.n, p.b, p.transpose_b);
  const memory::desc d = operand(p.m, p.n, p.d, false);
  dnnl::primitive_attr attributes;
  if (p.accumulate) {
    dnnl::post_ops post;
    post.append_sum(1.0F);
    attributes.set_post_ops(post);
  }
  const memory::desc bias = operand(1, p.n, p.has_bias ? p.bias : DType::kFloat32, false);
#if DNNL_VERSION_MAJOR >= 3
  const auto description = p.has_bias ? dnnl::matmul::primitive_desc(engine, a, b, bias, d, attributes)
                                      : dnnl::matmul::primitive_desc(engine, a, b, d, attributes);
#else
  const dnnl::matmul::primitive_desc description(
      p.has_bias ? dnnl::matmul::desc(a, b, bias, d) : dnnl::matmul::desc(a, b, d), attributes, engine);
#endif
  return dnnl::matmul(description);
}

// Whether the processor multiplies bf16 itself. Elsewhere oneDNN emulates it, at a quarter of the speed of fp32.
bool multiplies_bf16() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512bf16");
#else
  return true;
#endif
}

// A primitive with the memory objects it runs on; their addresses change at each call.
struct Entry {
  dnnl::matmul primitive;
  memory a, b, d, bias;
  std::unordered_map<int, memory> arguments;
};

}  // namespace

class Matmul::State {
 public:
  State(int threads, const Kernels& kernels) : threads_(threads), kernels_(kernels) {}

  void run(const Gemm& gemm) {
    const memory::dim m = gemm.d.rows(), n = gemm.d.columns();
    const memory::dim k = gemm.transpose_a ? gemm.a.rows() : gemm.a.columns();
    RAILYARD_CHECK((gemm.transpose_a ? gemm.a.columns() : gemm.a.rows()) == m, "rows of a");
    RAILYARD_CHECK((gemm.transpose_b ? gemm.b.columns() : gemm.b.rows()) == k, "inner extents");
    RAILYARD_CHECK((gemm.transpose_b ? gemm.b.rows() : gemm.b.columns()) == n, "columns of b");
    RAILYARD_CHECK(!gemm.bias.defined() || gemm.bias.elements() == n, "bias");
    RAILYARD_CHECK(!gemm.addend.defined() || gemm.addend.elements() == m * n, "addend");
    if (m == 0 || n == 0) return;
    bool accumulate = gemm.accumulate;
    if (gemm.addend.defined()) {
      RAILYARD_CHECK(!accumulate && gemm.addend.dtype == gemm.d.dtype, "addend");
      if (gemm.addend.data != gemm.d.data) copy(gemm.addend, gemm.d);
      accumulate = true;
    }
    RAILYARD_CHECK(k > 0, "an empty inner extent");
    const Problem problem{m,
                          n,
                          k,
                          gemm.transpose_a,
                          gemm.transpose_b,
                          accumulate,
                          gemm.a.dtype,
                          gemm.b.dtype,
                          gemm.d.dtype,
                          gemm.bias.defined(),
                          gemm.bias.defined() ? gemm.bias.dtype : DType::kFloat32};
    // The library takes the calling thread's team size.
    if (omp_get_max_threads() != threads_) omp_set_num_threads(threads_);
    const bool half = gemm.a.dtype == DType::kBFloat16 || gemm.b.dtype == DType::kBFloat16;
    Entry* entry = half && !multiplies_bf16() ? nullptr : find(problem);
    if (entry != nullptr) {
      execute(*entry, gemm.a.data, gemm.b.data, gemm.bias.data, gemm.d.data);
    } else {
      run_widened(problem, gemm);
    }
  }

 private:
  // Nothing when the library has no such product for this processor.
  Entry* find(const Problem& problem) {
    const auto found = entries_.find(problem);
    if (found != entries_.end()) return found->second.get();
    std::unique_ptr<Entry> entry;
    try {
      entry = std::make_unique<Entry>();
      entry->primitive = make_primitive(engine_, problem);
      entry->a = memory(operand(problem.m, problem.k, problem.a, problem.transpose_a), engine_, nullptr);
      entry->b = memory(operand(problem.k, problem.n, problem.b, problem.transpose_b), engine_, nullptr);
      entry->d = memory(operand(problem.m, problem.n, problem.d, false), engine_, nullptr);
      entry->arguments = {{DNNL_ARG_SRC, entry->a}, {DNNL_ARG_WEIGHTS, entry->b}, {DNNL_ARG_DST, entry->d}};
      if (problem.has_bias) {
        entry->bias = memory(operand(1, problem.n, problem.bias, false), engine_, nullptr);
        entry->arguments.emplace(DNNL_ARG_BIAS, entry->bias);
      }
    } catch (const dnnl::error& error) {
      if (error.status != dnnl_unimplemented)
        throw RunError("oneDNN: {} (matrix product of {} x {} x {})", error.what(), problem.m, problem.n, problem.k);
      entry = nullptr;
    }
    return entries_.emplace(problem, std::move(entry)).first->second.get();
  }

  void execute(Entry& entry, void* a, void* b, void* bias, void* d) {
    entry.a.set_data_handle(a);
    entry.b.set_data_handle(b);
    entry.d.set_data_handle(d);
    if (bias != nullptr) entry.bias.set_data_handle(bias);
    entry.primitive.execute(stream_, entry.arguments);
    stream_.wait();
  }

  // The product in fp32, with bf16 operands converted before and the result after.
  void run_widened(Problem problem, const Gemm& gemm) {
    const Tensor a = widened(gemm.a, a_, true), b = widened(gemm.b, b_, true),
                 d = widened(gemm.d, d_, problem.accumulate);
    const Tensor bias = gemm.bias.defined() ? widened(gemm.bias, bias_, true) : Tensor{};
    problem.a = problem.b = problem.d = problem.bias = DType::kFloat32;
    Entry* entry = find(problem);
    if (entry == nullptr) throw RunError("oneDNN has no fp32 matrix product for this processor");
    execute(*entry, a.data, b.data, bias.data, d.data);
    if (d.data != gemm.d.data)
      kernels_.cast(threads_, DType::kFloat32, gemm.d.dtype, d.elements(), d.data, gemm.d.data);
  }

  Tensor widened(const Tensor& tensor, std::vector<float>& scratch, bool filled) {
    if (tensor.dtype == DType::kFloat32) return tensor;
    const auto count = static_cast<std::size_t>(tensor.elements());
    if (scratch.size() < count) scratch.resize(count);
    if (filled) kernels_.cast(threads_, tensor.dtype, DType::kFloat32, tensor.elements(), tensor.data, scratch.data());
    return {scratch.data(), DType::kFloat32, tensor.shape};
  }

  void copy(const Tensor& from, const Tensor& to) {
    kernels_.cast(threads_, from.dtype, to.dtype, from.elements(), from.data, to.data);
  }

  int threads_;
  const Kernels& kernels_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::map<Problem, std::unique_ptr<Entry>> entries_;
  std::vector<float> a_, b_, d_, bias_;
};

Matmul::Matmul(int threads, const Kernels& kernels) : state_(std::make_unique<State>(threads, kernels)) {}
Matmul::~Matmul() = default;
void Matmul::run(const Gemm& arguments) { state_->run(arguments); }

}  // namespace railyard::cpu
