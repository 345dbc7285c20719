// Bias, dropout and the residual stream in one pass.
#include "runtime/compute/cuda/kernels/launch.cuh"

namespace railyard::cuda {
namespace {

constexpr int kThreads = 256;

template <class T, int W>
__global__ void residual_kernel(std::int64_t columns, const T* x, const T* bias, const T* residual, Mask mask,
                                float kept, T* out) {
  const auto [row, column] = row_place<kThreads, W>(columns);
  if (column >= columns) return;
  const std::int64_t at = row * columns + column;
  const Pack<T, W> in = load<T, W>(x + at);
  Pack<T, W> b{}, r{}, result;
  if (bias != nullptr) b = load<T, W>(bias + column);
  if (residual != nullptr) r = load<T, W>(residual + at);
  float factors[W];
#pragma unroll
  for (int lane = 0; lane < W; ++lane) factors[lane] = 1.0F;
  if (mask.probability > 0.0F) {
    const std::int64_t sample = mask.sample_ids[row];
    const std::int32_t position = mask.positions[row];
    float four[4];
    if constexpr (W == 1) {
      dropout_factors(sample, position, column / 4, mask.key, mask.probability, kept, four);
      const int lane = static_cast<int>(column % 4);
      factors[0] = lane == 0 ? four[0] : lane == 1 ? four[1] : lane == 2 ? four[2] : four[3];
    } else {
#pragma unroll
      for (int block = 0; block < W / 4; ++block) {
        dropout_factors(sample, position, column / 4 + block, mask.key, mask.probability, kept, four);
#pragma unroll
        for (int lane = 0; lane < 4; ++lane) factors[4 * block + lane] = four[lane];
      }
    }
  }
#pragma unroll
  for (int lane = 0; lane < W; ++lane) {
    float value = to_float(in.x[lane]);
    if (bias != nullptr) value += to_float(b.x[lane]);
    value *= factors[lane];
    if (residual != nullptr) value += to_float(r.x[lane]);
    result.x[lane] = from_float<T>(value);
  }
  store(out + at, result);
}

}  // namespace

void residual_add(const Target& target, DType type, std::int64_t rows, std::int64_t columns, const void* x,
                  const void* bias, const void* residual, const Mask& mask, void* out) {
  if (rows * columns == 0) return;
  with_compute_type(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto run = [&](auto width) {
      constexpr int W = decltype(width)::value;
      residual_kernel<T, W><<<row_grid(rows, columns, kThreads, W), kThreads, 0, target.stream>>>(
          columns, static_cast<const T*>(x), static_cast<const T*>(bias), static_cast<const T*>(residual), mask,
          1.0F / (1.0F - mask.probability), static_cast<T*>(out));
    };
    if (columns % kPackOf<T> == 0 && aligned({x, bias, residual, out}))
      run(std::integral_constant<int, kPackOf<T>>{});
    else
      run(std::integral_constant<int, 1>{});
  });
  check_launch("residual_add");
}

}  // namespace railyard::cuda
