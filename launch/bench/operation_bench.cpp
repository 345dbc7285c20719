// Times single operations through the Backend and Group interfaces.
#include "launch/bench/operation_bench.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <numeric>

#include "runtime/base/error.hpp"

namespace railyard::launch {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// The median of seven timings of enough repeats to fill some milliseconds.
double median_seconds(Backend& backend, const std::function<void()>& operation) {
  constexpr double kFill = 0.02;
  const auto time = [&](int repeats) {
    backend.synchronize();
    const auto begin = Clock::now();
    for (int i = 0; i < repeats; ++i) operation();
    backend.synchronize();
    return seconds_since(begin) / repeats;
  };
  time(1);  // algorithms are chosen, code is loaded
  const int repeats = std::clamp(static_cast<int>(kFill / time(1)), 1, 1000);
  std::vector<double> times(7);
  for (double& each : times) each = time(repeats);
  std::nth_element(times.begin(), times.begin() + 3, times.end());
  return times[3];
}

DType dtype_of(const std::string& name) {
  if (name == "fp32") return DType::kFloat32;
  if (name == "bf16") return DType::kBFloat16;
  throw UsageError("--dtype {}: is fp32, bf16 or, for products, fp8", name);
}

class Memory {
 public:
  explicit Memory(Backend& backend) : backend_(backend) {}
  Tensor tensor(DType type, const Shape& shape) {
    Tensor tensor{nullptr, type, shape};
    buffers_.push_back(backend_.allocate(std::max<std::size_t>(1, tensor.bytes())));
    tensor.data = buffers_.back().data();
    return tensor;
  }
  Tensor normal(DType type, const Shape& shape) {
    const Tensor result = tensor(type, shape);
    backend_.fill_normal(result, ++key_, 0, 0, shape[1], 0.0F, 1.0F);
    return result;
  }
  // An 8-bit copy of normal numbers with the scale of the whole tensor.
  Tensor eight_bit(const Shape& shape) {
    const Tensor wide = normal(DType::kBFloat16, shape);
    const Tensor maximum = tensor(DType::kFloat32, Shape{1}), scale = tensor(DType::kFloat32, Shape{1});
    Tensor result = tensor(DType::kFloat8E4M3, shape);
    result.scale = scale.as<float>();
    backend_.zero(maximum);
    backend_.amax(wide, maximum);
    backend_.scale_from_amax(maximum, result.dtype, scale);
    backend_.quantize(wide, result, {}, {});
    return result;
  }

 private:
  Backend& backend_;
  std::vector<Buffer> buffers_;
  std::uint64_t key_ = 0;
};

}  // namespace

GemmShape parse_gemm_shape(const std::string& text) {
  GemmShape shape;
  const char *at = text.data(), *end = at + text.size();
  for (std::int64_t* extent : {&shape.m, &shape.n, &shape.k}) {
    const auto [next, error] = std::from_chars(at, end, *extent);
    const bool last = extent == &shape.k;
    if (error != std::errc() || *extent < 1 || *extent > (std::int64_t{1} << 24) ||
        (last ? next != end : next == end || *next != 'x'))
      throw UsageError("--shape {}: is MxNxK, such as 8192x4096x14336", text);
    at = next + 1;
  }
  return shape;
}

std::vector<GemmShape> usual_gemm_shapes(bool cuda) {
  if (!cuda) return {{2048, 768, 256}, {2048, 1376, 256}, {2048, 864, 288}, {2048, 32000, 288}, {1024, 1024, 1024}};
  return {{8192, 8192, 8192},  {8192, 6144, 4096},   {8192, 4096, 4096},  {8192, 28672, 4096}, {8192, 4096, 14336},
          {8192, 10240, 8192}, {8192, 57344, 8192},  {8192, 8192, 28672}, {8192, 3072, 2048},  {8192, 16384, 2048},
          {8192, 2048, 8192},  {8192, 128256, 2048}, {32768, 2304, 768},  {32768, 4096, 768},  {32768, 768, 2048}};
}

std::vector<AttentionCase> usual_attention_cases(bool cuda) {
  if (!cuda) return {{8, 256, 8, 8, 32}, {8, 256, 6, 6, 48}, {1, 2048, 8, 8, 64}};
  return {{8, 1024, 32, 8, 128},  {2, 4096, 32, 8, 128},  {1, 8192, 32, 8, 128},
          {1, 32768, 32, 8, 128}, {32, 1024, 12, 12, 64}, {4, 4096, 32, 8, 64}};
}

GemmRate measure_gemm(Backend& backend, const std::string& dtype, const GemmShape& shape) {
  Memory memory(backend);
  const auto [m, n, k] = shape;
  Tensor a, b, d;
  if (dtype == "fp8") {
    a = memory.eight_bit(Shape{m, k});
    b = memory.eight_bit(Shape{n, k});
    d = memory.tensor(DType::kBFloat16, Shape{m, n});
  } else {
    const DType type = dtype_of(dtype);
    a = memory.normal(type, Shape{m, k});
    b = memory.normal(type, Shape{n, k});
    d = memory.tensor(type, Shape{m, n});
  }
  const double seconds = median_seconds(
      backend, [&] { backend.gemm({.a = a, .b = b, .transpose_b = true, .d = d, .fast_accumulation = true}); });
  return {dtype, m, n, k, 2e-12 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) / seconds};
}

AttentionRate measure_attention(Backend& backend, const std::string& dtype, const AttentionCase& which) {
  const DType type = dtype_of(dtype);
  const AttentionShape shape{.batch = which.samples,
                             .length = which.tokens,
                             .q_heads = which.heads,
                             .kv_heads = which.kv_heads,
                             .d_qk = which.head_dim,
                             .d_v = which.head_dim,
                             .scale = 1.0F / std::sqrt(static_cast<float>(which.head_dim))};
  Memory memory(backend);
  const std::int64_t n = which.samples * which.tokens;
  const Tensor packed = memory.normal(type, Shape{n, shape.packed_columns()}),
               out = memory.tensor(type, Shape{n, shape.output_columns()}),
               grad_out = memory.normal(type, Shape{n, shape.output_columns()}),
               grad_packed = memory.tensor(type, Shape{n, shape.packed_columns()}),
               log_sum_exp = memory.tensor(DType::kFloat32, Shape{shape.batch, shape.q_heads, shape.length});
  const auto workspace = [&](bool backward) {
    return memory.tensor(DType::kUInt8,
                         Shape{static_cast<std::int64_t>(backend.attention_workspace(shape, type, backward))});
  };
  const Tensor forward_space = workspace(false), backward_space = workspace(true);
  const double forward = median_seconds(
      backend, [&] { backend.attention_forward(shape, packed, {}, {}, out, log_sum_exp, forward_space); });
  const double backward = median_seconds(backend, [&] {
    backend.attention_backward(shape, packed, out, log_sum_exp, grad_out, {}, {}, grad_packed, backward_space);
  });
  // Scores and values, each 2 x length^2 x head_dim a head, causal at half.
  const double flops =
      2e-12 * static_cast<double>(n * which.tokens) * static_cast<double>(which.heads * which.head_dim);
  return {which.tokens, which.heads, which.head_dim, dtype, flops / forward, 2.5 * flops / backward};
}

double measure_copy(Backend& backend) {
  Memory memory(backend);
  const std::int64_t bytes = std::int64_t{1} << (backend.is_host_memory() ? 28 : 31);
  const Tensor from = memory.tensor(DType::kUInt8, Shape{bytes}), to = memory.tensor(DType::kUInt8, Shape{bytes});
  backend.zero(from);
  return 2e-9 * static_cast<double>(bytes) / median_seconds(backend, [&] { backend.copy(from, to); });
}

void measure_collectives(Backend& backend, Communicator& world, int ranks, std::int64_t largest,
                         const std::string& link_class, const std::function<void(const CommRate&)>& tell) {
  std::vector<int> members(static_cast<std::size_t>(ranks));
  std::iota(members.begin(), members.end(), 0);
  const bool member = world.rank() < ranks;
  const auto group =
      world.make_group(member ? members : std::vector<int>{world.rank()}, fmt::format("{} ranks", ranks));
  Memory memory(backend);
  const std::int64_t most = largest / (4 * ranks) * ranks;  // elements
  const Tensor a = memory.tensor(DType::kFloat32, Shape{most}), b = memory.tensor(DType::kFloat32, Shape{most});
  backend.zero(a);
  backend.zero(b);
  struct Operation {
    const char* name;
    double traffic;  // bytes that a rank sends, of the whole message's
    std::function<void(std::int64_t)> run;
  };
  const double others = static_cast<double>(ranks - 1) / ranks;
  const int peer = group->rank() ^ 1;
  const std::vector<Operation> operations = {
      {"all_reduce", 2.0 * others, [&](std::int64_t n) { group->all_reduce(a.flat(0, n), ReduceOp::kSum).wait(); }},
      {"all_gather", others,
       [&](std::int64_t n) {
         const std::int64_t part = n / ranks;
         group->all_gather(b.flat(group->rank() * part, part), b.flat(0, n)).wait();
       }},
      {"reduce_scatter", others,
       [&](std::int64_t n) {
         const std::int64_t part = n / ranks;
         group->reduce_scatter(a.flat(0, n), b.flat(0, part)).wait();
       }},
      {"all_to_all", others, [&](std::int64_t n) { group->all_to_all(a.flat(0, n), b.flat(0, n)).wait(); }},
      {"send_recv", 1.0,
       [&](std::int64_t n) {
         if (peer < ranks) group->exchange(a.flat(0, n), peer, b.flat(0, n), peer).wait();
       }},
  };
  for (const Operation& operation : operations) {
    for (std::int64_t bytes = std::int64_t{64} << 10; bytes <= largest; bytes *= 8) {
      const std::int64_t count = std::min(most, bytes / (4 * ranks) * ranks);
      double best = 0.0;
      for (int round = 0; round < 8; ++round) {
        world.barrier();
        const auto begin = Clock::now();
        if (member) operation.run(count);
        backend.synchronize();
        const double seconds = world.all_reduce(seconds_since(begin), ReduceOp::kMax);
        if (round > 0 && (best == 0.0 || seconds < best)) best = seconds;  // the first one connects
      }
      if (world.rank() == 0)
        tell({operation.name, ranks, 4.0 * static_cast<double>(count),
              operation.traffic * 4e-9 * static_cast<double>(count) / best, link_class});
    }
  }
}

}  // namespace railyard::launch
