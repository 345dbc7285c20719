// Which instruction set this processor has.
#include "runtime/base/error.hpp"
#include "runtime/compute/cpu/kernels/kernels.hpp"

namespace railyard::cpu {

#if defined(__x86_64__)
namespace avx512 {
extern const Kernels kTable;
}
namespace avx2 {
extern const Kernels kTable;
}

namespace {

std::vector<const Kernels*> find_kernels() {
  std::vector<const Kernels*> found;
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma"))
    found.push_back(&avx512::kTable);
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) found.push_back(&avx2::kTable);
  if (found.empty())
    throw RunError("this processor has no AVX2 and FMA, which the CPU backend needs: run on a newer one");
  return found;
}

}  // namespace
#else
namespace baseline {
extern const Kernels kTable;
}
namespace {

std::vector<const Kernels*> find_kernels() { return {&baseline::kTable}; }

}  // namespace
#endif

const std::vector<const Kernels*>& usable_kernels() {
  static const std::vector<const Kernels*> kernels = find_kernels();
  return kernels;
}

}  // namespace railyard::cpu
