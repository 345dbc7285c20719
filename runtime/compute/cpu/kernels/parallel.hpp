// Splitting work over OpenMP threads.
#pragma once

#include <omp.h>

#include "runtime/compute/cpu/kernels/simd.hpp"

namespace railyard::cpu::RAILYARD_ISA {

// Work below this many elements is not worth waking threads for.
inline constexpr std::int64_t kSerialElements = 8192;

// body(begin, end) on disjoint ranges that cover [0, count), multiples of `grain` but for the last. Each item costs
// about `elements` element operations.
template <class Body>
RAILYARD_INLINE void parallel_ranges(int threads, std::int64_t count, std::int64_t elements, std::int64_t grain,
                                     const Body& body) {
  if (threads == 1 || count * elements < kSerialElements) {
    if (count > 0) body(std::int64_t{0}, count);
    return;
  }
#pragma omp parallel num_threads(threads)
  {
    const std::int64_t grains = (count + grain - 1) / grain, team = omp_get_num_threads(),
                       member = omp_get_thread_num();
    const std::int64_t begin = grains * member / team * grain, end_grain = grains * (member + 1) / team * grain;
    const std::int64_t end = end_grain < count ? end_grain : count;
    if (begin < end) body(begin, end);
  }
}

}  // namespace railyard::cpu::RAILYARD_ISA
