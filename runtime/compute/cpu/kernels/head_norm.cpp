// RMSNorm of each query and key head (Henry et al., Query-Key Normalization, 2020; as Qwen3 has it), in place on
// packed.
#include "runtime/compute/cpu/kernels/operations.hpp"

namespace railyard::cpu::RAILYARD_ISA {
namespace {

template <class T>
void forward(const HeadNorm& a) {
  const Heads& h = a.heads;
  const std::int64_t heads = h.q_heads + h.kv_heads, d = h.d_qk;
  parallel_ranges(a.threads, h.batch * h.length, heads * d, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token)
      for (std::int64_t head = 0; head < heads; ++head) {
        T* row = static_cast<T*>(a.packed) + token * h.packed_columns + head * d;
        T* kept = static_cast<T*>(a.raw) + (token * heads + head) * d;
        const auto* weight = static_cast<const T*>(head < h.q_heads ? a.q_weight : a.k_weight);
        Floats squares{};
        for_vectors(d, [&](std::int64_t i, auto part) {
          const Floats x = load(row + i, part);
          store(kept + i, x, part);
          squares += x * x;
        });
        const float rstd = 1.0F / __builtin_sqrtf(sum_lanes(squares) / static_cast<float>(d) + a.epsilon);
        a.rstd[token * heads + head] = rstd;
        for_vectors(d, [&](std::int64_t i, auto part) {
          store(row + i, load(kept + i, part) * rstd * load(weight + i, part), part);
        });
      }
  });
}

// With xhat = x * rstd and g = grad * weight: grad_x = rstd * (g - xhat * mean(g * xhat)).
template <class T>
void backward(const HeadNorm& a) {
  const Heads& h = a.heads;
  const std::int64_t heads = h.q_heads + h.kv_heads, d = h.d_qk, tokens = h.batch * h.length;
  const std::int64_t blocks = sum_blocks(tokens);
  const float inverse = 1.0F / static_cast<float>(d);
  parallel_ranges(a.threads, blocks, kSumRows * heads * d, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t block = first; block < last; ++block) {
      float* sums = a.partial + block * 2 * d;
      for (std::int64_t i = 0; i < 2 * d; ++i) sums[i] = 0.0F;
      const std::int64_t end = (block + 1) * kSumRows < tokens ? (block + 1) * kSumRows : tokens;
      for (std::int64_t token = block * kSumRows; token < end; ++token)
        for (std::int64_t head = 0; head < heads; ++head) {
          const bool query = head < h.q_heads;
          T* grad = static_cast<T*>(a.packed) + token * h.packed_columns + head * d;
          const T* x = static_cast<const T*>(a.raw) + (token * heads + head) * d;
          const auto* weight = static_cast<const T*>(query ? a.q_weight : a.k_weight);
          float* sum = query ? sums : sums + d;
          const float rstd = a.rstd[token * heads + head];
          Floats products{};
          for_vectors(d, [&](std::int64_t i, auto part) {
            products += load(grad + i, part) * load(weight + i, part) * load(x + i, part);
          });
          const float mean = sum_lanes(products) * rstd * inverse;
          for_vectors(d, [&](std::int64_t i, auto part) {
            const Floats dy = load(grad + i, part), xhat = load(x + i, part) * rstd;
            store(sum + i, load(sum + i, part) + dy * xhat, part);
            store(grad + i, (dy * load(weight + i, part) - xhat * mean) * rstd, part);
          });
        }
    }
  });
  add_partial_sums(a.threads, blocks, d, 2 * d, a.partial, a.grad_q_weight);
  add_partial_sums(a.threads, blocks, d, 2 * d, a.partial + d, a.grad_k_weight);
}

}  // namespace

void head_norm_forward(const HeadNorm& arguments) {
  visit(arguments.type, [&](auto element) { forward<decltype(element)>(arguments); });
}

void head_norm_backward(const HeadNorm& arguments) {
  visit(arguments.type, [&](auto element) { backward<decltype(element)>(arguments); });
}

}  // namespace railyard::cpu::RAILYARD_ISA
