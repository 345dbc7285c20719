// Rotary positions in place (Su et al. 2021), rotate-half pairs.
#include "runtime/compute/cuda/kernels/launch.cuh"

namespace railyard::cuda {
namespace {

constexpr int kThreads = 256;

// A thread rotates W pairs of one head of one token.
template <class T, int W>
__global__ void rope_kernel(T* packed, std::int64_t count, std::int64_t columns, int heads, int head_size,
                            const std::int32_t* positions, const float* cosine, const float* sine, int half,
                            float sign) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= count) return;
  const int per_head = half / W, per_token = heads * per_head;
  const std::int64_t token = i / per_token;
  const int rest = static_cast<int>(i - token * per_token), head = rest / per_head, pair = (rest - head * per_head) * W;
  T* low = packed + token * columns + static_cast<std::int64_t>(head) * head_size + pair;
  const std::int64_t entry = static_cast<std::int64_t>(positions[token]) * half + pair;
  Pack<T, W> a = load<T, W>(low), b = load<T, W>(low + half);
  const Pack<float, W> c = load<float, W>(cosine + entry), s = load<float, W>(sine + entry);
#pragma unroll
  for (int lane = 0; lane < W; ++lane) {
    const float x = to_float(a.x[lane]), y = to_float(b.x[lane]), rotation = sign * s.x[lane];
    a.x[lane] = from_float<T>(x * c.x[lane] - y * rotation);
    b.x[lane] = from_float<T>(y * c.x[lane] + x * rotation);
  }
  store(low, a);
  store(low + half, b);
}

}  // namespace

void rope(const Target& target, DType type, void* packed, std::int64_t tokens, std::int64_t columns, std::int64_t heads,
          std::int64_t head_size, const std::int32_t* positions, const float* cosine, const float* sine,
          std::int64_t half, bool inverse) {
  if (tokens * heads * half == 0) return;
  with_compute_type(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr int kFull = kPackOf<T>;
    const auto run = [&](auto width) {
      constexpr int W = decltype(width)::value;
      const std::int64_t count = tokens * heads * (half / W);
      rope_kernel<T, W><<<grid_of(count, kThreads), kThreads, 0, target.stream>>>(
          static_cast<T*>(packed), count, columns, static_cast<int>(heads), static_cast<int>(head_size), positions,
          cosine, sine, static_cast<int>(half), inverse ? -1.0F : 1.0F);
    };
    if (half % kFull == 0 && head_size % kFull == 0 && columns % kFull == 0 && aligned({packed, cosine, sine}))
      run(std::integral_constant<int, kFull>{});
    else
      run(std::integral_constant<int, 1>{});
  });
  check_launch("rope");
}

}  // namespace railyard::cuda
