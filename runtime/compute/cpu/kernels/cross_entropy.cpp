// Softmax statistics of logit rows and the gradient of the cross entropy.
#include "runtime/compute/cpu/kernels/math.hpp"
#include "runtime/compute/cpu/kernels/operations.hpp"

namespace railyard::cpu::RAILYARD_ISA {
namespace {

template <class T>
void statistics(const CrossEntropy& a) {
  const auto* logits = static_cast<const T*>(a.logits);
  const Floats lowest = broadcast(-__builtin_inff());
  parallel_ranges(a.threads, a.rows, a.valid, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const T* in = logits + row * a.columns;
      Floats maxima = lowest;
      for_vectors(a.valid,
                  [&](std::int64_t i, auto part) { maxima = larger(maxima, keep(load(in + i, part), lowest, part)); });
      const float maximum = max_lanes(maxima);
      Floats sums{};
      for_vectors(a.valid, [&](std::int64_t i, auto part) {
        sums += keep(exponential(load(in + i, part) - maximum), Floats{}, part);
      });
      const std::int64_t column = a.labels[row] - a.first_column;
      float* result = a.statistics + row * 3;
      result[0] = maximum;
      result[1] = sum_lanes(sums);
      result[2] = column >= 0 && column < a.valid ? to_float(in[column]) : 0.0F;
    }
  });
}

template <class T>
void gradient(const CrossEntropy& a) {
  auto* logits = static_cast<T*>(a.logits);
  parallel_ranges(a.threads, a.rows, a.columns, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      T* at = logits + row * a.columns;
      const float weight = a.weights[row] * a.factor, shift = a.log_sum_exp[row];
      const std::int64_t column = a.labels[row] - a.first_column;
      const bool inside = column >= 0 && column < a.valid;
      Floats label{};
      if (inside) label[0] = (exponential(broadcast(to_float(at[column]) - shift))[0] - 1.0F) * weight;
      for_vectors(a.valid, [&](std::int64_t i, auto part) {
        store(at + i, weight == 0.0F ? Floats{} : exponential(load(at + i, part) - shift) * weight, part);
      });
      if (inside) store(at + column, weight == 0.0F ? Floats{} : label, Part{1});
      for_vectors(a.columns - a.valid, [&](std::int64_t i, auto part) { store(at + a.valid + i, Floats{}, part); });
    }
  });
}

}  // namespace

void softmax_statistics(const CrossEntropy& arguments) {
  visit(arguments.type, [&](auto element) { statistics<decltype(element)>(arguments); });
}

void cross_entropy_gradient(const CrossEntropy& arguments) {
  visit(arguments.type, [&](auto element) { gradient<decltype(element)>(arguments); });
}

}  // namespace railyard::cpu::RAILYARD_ISA
