// LayerNorm (Ba, Kiros, Hinton, 2016) and RMSNorm (Zhang & Sennrich, 2019), forward and backward.
#include "runtime/compute/cpu/kernels/operations.hpp"

namespace railyard::cpu::RAILYARD_ISA {
namespace {

template <class T>
void forward(const Norm& a) {
  const auto* x = static_cast<const T*>(a.x);
  const auto* weight = static_cast<const T*>(a.weight);
  const auto* bias = static_cast<const T*>(a.bias);
  auto* y = static_cast<T*>(a.y);
  parallel_ranges(a.threads, a.rows, a.columns, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const T* in = x + row * a.columns;
      T* out = y + row * a.columns;
      float mean = 0.0F;
      if (a.center) {
        Floats sum{};
        for_vectors(a.columns, [&](std::int64_t i, auto part) { sum += load(in + i, part); });
        mean = sum_lanes(sum) / static_cast<float>(a.columns);
        a.mean[row] = mean;
      }
      Floats squares{};
      for_vectors(a.columns, [&](std::int64_t i, auto part) {
        const Floats centered = keep(load(in + i, part) - mean, Floats{}, part);
        squares += centered * centered;
      });
      const float rstd = 1.0F / __builtin_sqrtf(sum_lanes(squares) / static_cast<float>(a.columns) + a.epsilon);
      a.rstd[row] = rstd;
      for_vectors(a.columns, [&](std::int64_t i, auto part) {
        Floats value = (load(in + i, part) - mean) * rstd * (load(weight + i, part) + a.weight_add);
        if (bias != nullptr) value += load(bias + i, part);
        store(out + i, value, part);
      });
    }
  });
}

// With xhat = (x - mean) * rstd and g = grad_y * weight:
// grad_x = rstd * (g - mean(g) - xhat * mean(g * xhat)); RMSNorm has no mean(g).
template <class T>
void backward(const NormBackward& a) {
  const auto* grad_y = static_cast<const T*>(a.grad_y);
  const auto* x = static_cast<const T*>(a.x);
  const auto* weight = static_cast<const T*>(a.weight);
  const auto* addend = static_cast<const T*>(a.addend);
  auto* grad_x = static_cast<T*>(a.grad_x);
  const std::int64_t columns = a.columns, blocks = sum_blocks(a.rows);
  const bool sums = a.grad_weight != nullptr || a.grad_bias != nullptr;
  const float inverse = 1.0F / static_cast<float>(columns);
  parallel_ranges(a.threads, blocks, kSumRows * columns, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t block = first; block < last; ++block) {
      float* weight_sum = a.partial + block * 2 * columns;
      float* bias_sum = weight_sum + columns;
      if (sums)
        for (std::int64_t i = 0; i < 2 * columns; ++i) weight_sum[i] = 0.0F;
      const std::int64_t end = (block + 1) * kSumRows < a.rows ? (block + 1) * kSumRows : a.rows;
      for (std::int64_t row = block * kSumRows; row < end; ++row) {
        const T* in = x + row * columns;
        const T* gradient = grad_y + row * columns;
        const float mean = a.center ? a.mean[row] : 0.0F, rstd = a.rstd[row];
        Floats sum_g{}, sum_gx{};
        for_vectors(columns, [&](std::int64_t i, auto part) {
          const Floats g = load(gradient + i, part) * (load(weight + i, part) + a.weight_add);
          sum_g += g;
          sum_gx += g * (load(in + i, part) - mean);
        });
        const float mean_g = a.center ? sum_lanes(sum_g) * inverse : 0.0F;
        const float mean_gx = sum_lanes(sum_gx) * rstd * inverse;
        for_vectors(columns, [&](std::int64_t i, auto part) {
          const Floats dy = load(gradient + i, part);
          const Floats xhat = (load(in + i, part) - mean) * rstd;
          const Floats g = dy * (load(weight + i, part) + a.weight_add);
          Floats value = (g - mean_g - xhat * mean_gx) * rstd;
          if (addend != nullptr) value += load(addend + row * columns + i, part);
          if (sums) {
            store(weight_sum + i, load(weight_sum + i, part) + dy * xhat, part);
            store(bias_sum + i, load(bias_sum + i, part) + dy, part);
          }
          store(grad_x + row * columns + i, value, part);
        });
      }
    }
  });
  if (a.grad_weight != nullptr) add_partial_sums(a.threads, blocks, columns, 2 * columns, a.partial, a.grad_weight);
  if (a.grad_bias != nullptr)
    add_partial_sums(a.threads, blocks, columns, 2 * columns, a.partial + columns, a.grad_bias);
}

}  // namespace

void norm_forward(const Norm& arguments) {
  visit(arguments.type, [&](auto element) { forward<decltype(element)>(arguments); });
}

void norm_backward(const NormBackward& arguments) {
  visit(arguments.type, [&](auto element) { backward<decltype(element)>(arguments); });
}

}  // namespace railyard::cpu::RAILYARD_ISA
