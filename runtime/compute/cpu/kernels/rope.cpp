// Rotary position embedding (Su et al., RoFormer, 2021), in place on packed query and key heads.
#include "runtime/compute/cpu/kernels/operations.hpp"

namespace railyard::cpu::RAILYARD_ISA {
namespace {

template <class T>
void run(const Rope& a) {
  auto* packed = static_cast<T*>(a.packed);
  const Heads& h = a.heads;
  const std::int64_t heads = h.q_heads + h.kv_heads;
  const float sign = a.inverse ? -1.0F : 1.0F;
  parallel_ranges(a.threads, h.batch * h.length, heads * h.d_qk, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token) {
      const float* cosine = a.cosine + a.positions[token] * a.pairs;
      const float* sine = a.sine + a.positions[token] * a.pairs;
      for (std::int64_t head = 0; head < heads; ++head) {
        T* low = packed + token * h.packed_columns + head * h.d_qk;
        T* high = low + a.pairs;
        for_vectors(a.pairs, [&](std::int64_t i, auto part) {
          const Floats c = load(cosine + i, part), s = load(sine + i, part) * sign;
          const Floats x = load(low + i, part), y = load(high + i, part);
          store(low + i, x * c - y * s, part);
          store(high + i, y * c + x * s, part);
        });
      }
    }
  });
}

}  // namespace

void rope(const Rope& arguments) {
  visit(arguments.type, [&](auto element) { run<decltype(element)>(arguments); });
}

}  // namespace railyard::cpu::RAILYARD_ISA
