// Rows of the embedding table by token, and the sum of their gradients.
#include "runtime/compute/cpu/kernels/operations.hpp"

namespace railyard::cpu::RAILYARD_ISA {
namespace {

template <class T>
void forward(const EmbeddingPass& a) {
  const auto* table = static_cast<const T*>(a.table);
  auto* out = static_cast<T*>(a.out);
  parallel_ranges(a.threads, a.tokens, a.columns, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token) {
      const std::int64_t row = a.ids[token] - a.first_row;
      const bool inside = row >= 0 && row < a.table_rows;
      T* to = out + token * a.columns;
      if (!inside && a.accumulate) continue;
      for_vectors(a.columns, [&](std::int64_t i, auto part) {
        Floats value = inside ? load(table + row * a.columns + i, part) : Floats{};
        if (a.accumulate) value += load(to + i, part);
        store(to + i, value, part);
      });
    }
  });
}

// Threads share columns, not tokens, so that every sum is taken in the order of the tokens.
template <class T>
void backward(const EmbeddingPass& a) {
  const auto* grad = static_cast<const T*>(a.grad);
  parallel_ranges(a.threads, a.columns, a.tokens, kLanes, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = 0; token < a.tokens; ++token) {
      const std::int64_t row = a.ids[token] - a.first_row;
      if (row < 0 || row >= a.table_rows) continue;
      float* sum = a.grad_table + row * a.columns + begin;
      const T* from = grad + token * a.columns + begin;
      for_vectors(end - begin,
                  [&](std::int64_t i, auto part) { store(sum + i, load(sum + i, part) + load(from + i, part), part); });
    }
  });
}

}  // namespace

void embedding_forward(const EmbeddingPass& arguments) {
  visit(arguments.type, [&](auto element) { forward<decltype(element)>(arguments); });
}

void embedding_backward(const EmbeddingPass& arguments) {
  visit(arguments.type, [&](auto element) { backward<decltype(element)>(arguments); });
}

}  // namespace railyard::cpu::RAILYARD_ISA
