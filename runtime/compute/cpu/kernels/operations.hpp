// Declarations of one instruction set's kernels, and what they share.
#pragma once

#include "runtime/compute/cpu/kernels/kernels.hpp"
#include "runtime/compute/cpu/kernels/parallel.hpp"
#include "runtime/compute/cpu/kernels/shuffle.hpp"
#include "runtime/compute/cpu/kernels/simd.hpp"

namespace railyard::cpu::RAILYARD_ISA {

// body(float{}) or body(BFloat16{}).
template <class Body>
RAILYARD_INLINE void visit(DType type, const Body& body) {
  if (type == DType::kBFloat16) {
    body(BFloat16{});
  } else {
    body(float{});
  }
}

// sums [columns] += the rows of partial [blocks, columns], which are `stride` apart, in their order.
RAILYARD_INLINE void add_partial_sums(int threads, std::int64_t blocks, std::int64_t columns, std::int64_t stride,
                                      const float* partial, float* sums) {
  parallel_ranges(threads, columns, blocks, kLanes, [&](std::int64_t begin, std::int64_t end) {
    for_vectors(end - begin, [&](std::int64_t i, auto part) {
      Floats sum{};
      for (std::int64_t block = 0; block < blocks; ++block) sum += load(partial + block * stride + begin + i, part);
      store(sums + begin + i, load(sums + begin + i, part) + sum, part);
    });
  });
}

void fill(int threads, DType type, std::int64_t count, float value, void* out);
void cast(int threads, DType from, DType to, std::int64_t count, const void* in, void* out);
void add(int threads, DType type, std::int64_t count, const void* a, const void* b, void* out);
void scale(int threads, DType type, std::int64_t count, float factor, void* values);
void bias_gradient(int threads, DType type, std::int64_t rows, std::int64_t columns, const void* grad, float* grad_bias,
                   float* partial);
void norm_forward(const Norm& arguments);
void norm_backward(const NormBackward& arguments);
void head_norm_forward(const HeadNorm& arguments);
void head_norm_backward(const HeadNorm& arguments);
void rope(const Rope& arguments);
std::size_t attention_workspace(const Heads& heads, int threads, bool backward);
void attention_forward(const Attention& arguments);
void attention_backward(const Attention& arguments);
void activation_forward(const ActivationPass& arguments);
void activation_backward(const ActivationPass& arguments);
void residual_add(const ResidualAdd& arguments);
void embedding_forward(const EmbeddingPass& arguments);
void embedding_backward(const EmbeddingPass& arguments);
void softmax_statistics(const CrossEntropy& arguments);
void cross_entropy_gradient(const CrossEntropy& arguments);
double squared_norm(int threads, std::int64_t count, const float* values, double* partial);
void adamw(const AdamWStep& arguments);
void split_master(int threads, std::int64_t count, const float* weights, void* parameter, std::uint16_t* remainder);

}  // namespace railyard::cpu::RAILYARD_ISA
