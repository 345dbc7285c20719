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

const Kernels& select_kernels() {
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma"))
    return avx512::kTable;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return avx2::kTable;
  throw RunError("this processor has no AVX2 and FMA, which the CPU backend needs: run on a newer one");
}
#else
namespace baseline {
extern const Kernels kTable;
}

const Kernels& select_kernels() { return baseline::kTable; }
#endif

}  // namespace railyard::cpu
