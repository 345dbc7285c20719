// The residual stream: bias, dropout and addition in one pass.
#include "runtime/compute/cpu/kernels/operations.hpp"
#include "runtime/compute/cpu/kernels/random.hpp"

namespace railyard::cpu::RAILYARD_ISA {
namespace {

template <class T>
void run(const ResidualAdd& a) {
  const auto* x = static_cast<const T*>(a.x);
  const auto* bias = static_cast<const T*>(a.bias);
  const auto* residual = static_cast<const T*>(a.residual);
  auto* out = static_cast<T*>(a.out);
  const bool masked = a.mask.probability > 0.0F;
  parallel_ranges(a.threads, a.rows, a.columns, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t start = row * a.columns;
      for (std::int64_t first = 0; first < a.columns; first += kMaskColumns) {
        float factors[kMaskColumns];
        if (masked)
          dropout_factors(a.mask.sample_ids[row], a.mask.positions[row], first, a.mask.key, a.mask.probability,
                          factors);
        const std::int64_t count = a.columns - first < kMaskColumns ? a.columns - first : kMaskColumns;
        for_vectors(count, [&](std::int64_t i, auto part) {
          Floats value = load(x + start + first + i, part);
          if (bias != nullptr) value += load(bias + first + i, part);
          if (masked) value *= load(factors + i);
          if (residual != nullptr) value += load(residual + start + first + i, part);
          store(out + start + first + i, value, part);
        });
      }
    }
  });
}

}  // namespace

void residual_add(const ResidualAdd& arguments) {
  visit(arguments.type, [&](auto element) { run<decltype(element)>(arguments); });
}

}  // namespace railyard::cpu::RAILYARD_ISA
