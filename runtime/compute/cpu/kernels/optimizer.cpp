// AdamW and the squared norm of gradients.
#include "runtime/compute/cpu/kernels/math.hpp"
#include "runtime/compute/cpu/kernels/operations.hpp"

namespace railyard::cpu::RAILYARD_ISA {
namespace {

constexpr std::int64_t kGrain = 4096;

// Moments of parameters that get no gradient for long decay to subnormal numbers, each operation on which costs a trap
// into microcode: they become 0 instead.
class FlushSubnormals {
#if defined(__AVX2__)
 public:
  FlushSubnormals() { _mm_setcsr(before_ | 0x8040U); }  // flush to zero, denormals are zero
  ~FlushSubnormals() { _mm_setcsr(before_); }
  FlushSubnormals(const FlushSubnormals&) = delete;
  FlushSubnormals& operator=(const FlushSubnormals&) = delete;

 private:
  unsigned before_ = _mm_getcsr();
#endif
};

// fp32 weights where they are: in one array, or split over two (dtype.hpp says how).
struct WholeWeights {
  float* weights;
  template <class Lanes>
  Floats read(std::int64_t i, Lanes part) const {
    return load(weights + i, part);
  }
  template <class Lanes>
  void write(std::int64_t i, Floats value, Lanes part) const {
    store(weights + i, value, part);
  }
};
struct SplitWeights {
  std::uint16_t *upper, *lower;
  Floats read(std::int64_t i, Full) const {
    Shorts high, low;
    __builtin_memcpy(&high, upper + i, sizeof high);
    __builtin_memcpy(&low, lower + i, sizeof low);
    const Uints rest = __builtin_convertvector(low, Uints);
    return (Floats)(((__builtin_convertvector(high, Uints) - (rest >> 15)) << 16) | rest);
  }
  void write(std::int64_t i, Floats value, Full) const {
    const Uints bits = (Uints)value;
    const Shorts high = __builtin_convertvector((bits + 0x8000U) >> 16, Shorts),
                 low = __builtin_convertvector(bits & 0xffffU, Shorts);
    __builtin_memcpy(upper + i, &high, sizeof high);
    __builtin_memcpy(lower + i, &low, sizeof low);
  }
  Floats read(std::int64_t i, Part part) const {
    std::uint16_t high[kLanes] = {}, low[kLanes] = {};
    for (int lane = 0; lane < part.count; ++lane) {
      high[lane] = upper[i + lane];
      low[lane] = lower[i + lane];
    }
    return SplitWeights{high, low}.read(0, Full{});
  }
  void write(std::int64_t i, Floats value, Part part) const {
    std::uint16_t high[kLanes], low[kLanes];
    SplitWeights{high, low}.write(0, value, Full{});
    for (int lane = 0; lane < part.count; ++lane) {
      upper[i + lane] = high[lane];
      lower[i + lane] = low[lane];
    }
  }
};

template <class Weights>
void update(const AdamWStep& a, const Weights& weights) {
  const float decay = 1.0F - a.learning_rate * a.weight_decay, step = a.learning_rate / a.bias_correction1;
  const float inverse2 = 1.0F / a.bias_correction2;
  parallel_ranges(a.threads, a.count, 4, kGrain, [&](std::int64_t begin, std::int64_t end) {
    [[maybe_unused]] const FlushSubnormals flush;
    for_vectors(end - begin, [&](std::int64_t offset, auto part) {
      const std::int64_t i = begin + offset;
      const Floats g = load(a.grad + i, part) * a.gradient_scale;
      const Floats m = a.beta1 * load(a.exp_avg + i, part) + (1.0F - a.beta1) * g;
      const Floats v = a.beta2 * load(a.exp_avg_sq + i, part) + (1.0F - a.beta2) * g * g;
      const Floats w = weights.read(i, part) * decay - step * m / (square_root(v * inverse2) + a.epsilon);
      store(a.exp_avg + i, m, part);
      store(a.exp_avg_sq + i, v, part);
      weights.write(i, w, part);
    });
  });
}

// Sixteen sums in fp64 whatever the vector width, so that the result depends on the length alone.
double block_squares(const float* values, std::int64_t count) {
  double sums[16] = {};
  std::int64_t i = 0;
  for (; i + 16 <= count; i += 16)
    for (int lane = 0; lane < 16; ++lane) {
      const double value = values[i + lane];
      sums[lane] += value * value;
    }
  for (; i < count; ++i) sums[i % 16] += static_cast<double>(values[i]) * values[i];
  for (int width = 8; width > 0; width /= 2)
    for (int lane = 0; lane < width; ++lane) sums[lane] += sums[lane + width];
  return sums[0];
}

}  // namespace

void adamw(const AdamWStep& arguments) {
  if (arguments.type == DType::kFloat32)
    update(arguments, WholeWeights{static_cast<float*>(arguments.parameter)});
  else
    update(arguments, SplitWeights{static_cast<std::uint16_t*>(arguments.parameter), arguments.remainder});
}

void split_master(int threads, std::int64_t count, const float* weights, void* parameter, std::uint16_t* remainder) {
  const SplitWeights split{static_cast<std::uint16_t*>(parameter), remainder};
  parallel_ranges(threads, count, 1, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for_vectors(end - begin, [&](std::int64_t offset, auto part) {
      split.write(begin + offset, load(weights + begin + offset, part), part);
    });
  });
}

double squared_norm(int threads, std::int64_t count, const float* values, double* partial) {
  const std::int64_t blocks = squared_norm_blocks(count);
  parallel_ranges(threads, blocks, kSquaredNormBlock, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block) {
      const std::int64_t first = block * kSquaredNormBlock, left = count - first;
      partial[block] = block_squares(values + first, left < kSquaredNormBlock ? left : kSquaredNormBlock);
    }
  });
  double sum = 0.0;
  for (std::int64_t block = 0; block < blocks; ++block) sum += partial[block];
  return sum;
}

}  // namespace railyard::cpu::RAILYARD_ISA
