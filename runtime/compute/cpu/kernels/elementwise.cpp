// Fill, cast, add, scale, and the column sums of a bias gradient.
#include "runtime/compute/cpu/kernels/kernels.hpp"
#include "runtime/compute/cpu/kernels/operations.hpp"
#include "runtime/compute/cpu/kernels/parallel.hpp"

namespace railyard::cpu::RAILYARD_ISA {
namespace {

constexpr std::int64_t kGrain = 1024;

template <class In, class Out>
void convert(int threads, std::int64_t count, const In* in, Out* out) {
  parallel_ranges(threads, count, 1, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for_vectors(end - begin,
                [&](std::int64_t i, auto part) { store(out + begin + i, load(in + begin + i, part), part); });
  });
}

template <class T>
void sum_columns(int threads, std::int64_t rows, std::int64_t columns, const T* grad, float* grad_bias,
                 float* partial) {
  const std::int64_t blocks = sum_blocks(rows);
  parallel_ranges(threads, blocks, kSumRows * columns, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t block = first; block < last; ++block) {
      const std::int64_t begin = block * kSumRows, end = begin + kSumRows < rows ? begin + kSumRows : rows;
      for_vectors(columns, [&](std::int64_t column, auto part) {
        Floats sum{};
        for (std::int64_t row = begin; row < end; ++row) sum += load(grad + row * columns + column, part);
        store(partial + block * columns + column, sum, part);
      });
    }
  });
  add_partial_sums(threads, blocks, columns, columns, partial, grad_bias);
}

}  // namespace

void fill(int threads, DType type, std::int64_t count, float value, void* out) {
  visit(type, [&](auto element) {
    auto* to = static_cast<decltype(element)*>(out);
    parallel_ranges(threads, count, 1, kGrain, [&](std::int64_t begin, std::int64_t end) {
      for_vectors(end - begin, [&](std::int64_t i, auto part) { store(to + begin + i, broadcast(value), part); });
    });
  });
}

void cast(int threads, DType from, DType to, std::int64_t count, const void* in, void* out) {
  visit(from, [&](auto source) {
    visit(to, [&](auto target) {
      convert(threads, count, static_cast<const decltype(source)*>(in), static_cast<decltype(target)*>(out));
    });
  });
}

void add(int threads, DType type, std::int64_t count, const void* a, const void* b, void* out) {
  visit(type, [&](auto element) {
    using T = decltype(element);
    const auto* left = static_cast<const T*>(a);
    const auto* right = static_cast<const T*>(b);
    auto* to = static_cast<T*>(out);
    parallel_ranges(threads, count, 1, kGrain, [&](std::int64_t begin, std::int64_t end) {
      for_vectors(end - begin, [&](std::int64_t i, auto part) {
        store(to + begin + i, load(left + begin + i, part) + load(right + begin + i, part), part);
      });
    });
  });
}

void scale(int threads, DType type, std::int64_t count, float factor, void* values) {
  visit(type, [&](auto element) {
    auto* at = static_cast<decltype(element)*>(values);
    parallel_ranges(threads, count, 1, kGrain, [&](std::int64_t begin, std::int64_t end) {
      for_vectors(end - begin,
                  [&](std::int64_t i, auto part) { store(at + begin + i, load(at + begin + i, part) * factor, part); });
    });
  });
}

void bias_gradient(int threads, DType type, std::int64_t rows, std::int64_t columns, const void* grad, float* grad_bias,
                   float* partial) {
  visit(type, [&](auto element) {
    sum_columns(threads, rows, columns, static_cast<const decltype(element)*>(grad), grad_bias, partial);
  });
}

}  // namespace railyard::cpu::RAILYARD_ISA
