// Fill, cast, add, scale, bias and normal numbers.
#include <cuda_fp16.h>

#include "runtime/compute/cuda/kernels/launch.cuh"

namespace railyard::cuda {
namespace {

constexpr int kThreads = 256;

template <class T>
__global__ void fill_kernel(T* out, std::int64_t count, T value) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count; i += step)
    out[i] = value;
}

struct Identity {
  float factor;
  __device__ float operator()(float a) const { return a; }
};
struct Times {
  float factor;
  __device__ float operator()(float a) const { return a * factor; }
};
struct Plus {
  __device__ float operator()(float a, float b) const { return a + b; }
};

// out[i] = f(in[i]...); W elements a thread, the rest of the last thread one by one.
template <int W, class F, class Out, class... In>
__global__ void map_kernel(std::int64_t count, F f, Out* out, const In*... in) {
  const std::int64_t i = (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) * W;
  if (i + W <= count) {
    Pack<Out, W> result;
    const auto apply = [&](const auto&... packs) {
#pragma unroll
      for (int lane = 0; lane < W; ++lane) result.x[lane] = from_float<Out>(f(to_float(packs.x[lane])...));
    };
    apply(load<In, W>(in + i)...);
    store(out + i, result);
  } else {
    for (std::int64_t j = i; j < count; ++j) out[j] = from_float<Out>(f(to_float(in[j])...));
  }
}

template <class F, class Out, class... In>
void map(const Target& target, std::int64_t count, F f, Out* out, const In*... in) {
  if (count == 0) return;
  if (aligned({out, in...})) {
    map_kernel<8><<<grid_of(count, kThreads * 8), kThreads, 0, target.stream>>>(count, f, out, in...);
  } else {
    map_kernel<1><<<grid_of(count, kThreads), kThreads, 0, target.stream>>>(count, f, out, in...);
  }
  check_launch("elementwise kernel");
}

template <class To, class From>
__device__ To convert(From value) {
  if constexpr (std::is_same_v<From, double>) {
    if constexpr (std::is_same_v<To, double> || std::is_same_v<To, float>)
      return static_cast<To>(value);
    else
      return static_cast<To>(static_cast<float>(value));
  } else {
    return static_cast<To>(static_cast<float>(value));
  }
}

template <class From, class To>
__global__ void cast_kernel(const From* in, To* out, std::int64_t count) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count; i += step)
    out[i] = convert<To>(in[i]);
}

template <class F>
void with_float_type(DType type, F&& f) {
  switch (type) {
    case DType::kFloat16:
      return f(Type<__half>{});
    case DType::kFloat64:
      return f(Type<double>{});
    default:
      return with_compute_type(type, f);
  }
}

bool is_compute_type(DType type) { return type == DType::kFloat32 || type == DType::kBFloat16; }

template <class T>
__global__ void add_bias_kernel(const T* bias, float* out, std::int64_t count, std::int64_t columns) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < count) out[i] += to_float(bias[i % columns]);
}
template <class T>
__global__ void add_bias_kernel(const T* bias, __nv_bfloat16* out, std::int64_t count, std::int64_t columns) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < count) out[i] = __float2bfloat16_rn(to_float(out[i]) + to_float(bias[i % columns]));
}

// A thread for each block of four logical elements that a row touches.
template <class T>
__global__ void normal_kernel(T* out, std::int64_t rows, std::int64_t columns, std::int64_t blocks_per_row,
                              std::uint64_t key, std::int64_t first_row, std::int64_t first_column,
                              std::int64_t logical_columns, float mean, float deviation) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const std::int64_t row = i / blocks_per_row;
  if (row >= rows) return;
  const auto begin = static_cast<std::uint64_t>((first_row + row) * logical_columns + first_column);
  const std::uint64_t end = begin + static_cast<std::uint64_t>(columns);
  const std::uint64_t block = begin / 4 + static_cast<std::uint64_t>(i % blocks_per_row);
  if (block * 4 >= end) return;
  const PhiloxBlock bits =
      philox4x32(static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0, 0, key);
  float numbers[4];
#pragma unroll
  for (int pair = 0; pair < 2; ++pair) {
    const float radius = sqrtf(-2.0F * logf(uniform_open(bits.x[2 * pair])));
    const float angle = 6.28318530717958648F * uniform_open(bits.x[2 * pair + 1]);
    numbers[2 * pair] = radius * cosf(angle);
    numbers[2 * pair + 1] = radius * sinf(angle);
  }
#pragma unroll
  for (std::uint64_t lane = 0; lane < 4; ++lane) {
    const std::uint64_t element = block * 4 + lane;
    if (element < begin || element >= end) continue;
    out[row * columns + static_cast<std::int64_t>(element - begin)] = from_float<T>(mean + deviation * numbers[lane]);
  }
}

unsigned strided_grid(const Target& target, std::int64_t count) {
  const std::int64_t full = static_cast<std::int64_t>(target.processors) * 8;
  return static_cast<unsigned>(std::max<std::int64_t>(1, std::min(full, divide_up<std::int64_t>(count, kThreads))));
}

}  // namespace

void fill_bits(const Target& target, void* out, std::size_t size, std::int64_t count, std::uint64_t bits) {
  if (count == 0) return;
  const unsigned grid = strided_grid(target, count);
  const auto run = [&](auto value) {
    fill_kernel<<<grid, kThreads, 0, target.stream>>>(static_cast<decltype(value)*>(out), count, value);
  };
  if (size == 1) run(static_cast<std::uint8_t>(bits));
  if (size == 2) run(static_cast<std::uint16_t>(bits));
  if (size == 4) run(static_cast<std::uint32_t>(bits));
  if (size == 8) run(bits);
  check_launch("fill");
}

void cast(const Target& target, const void* in, DType from, void* out, DType to, std::int64_t count) {
  if (count == 0) return;
  if (is_compute_type(from) && is_compute_type(to)) {
    with_compute_type(from, [&](auto a) {
      with_compute_type(to, [&](auto b) {
        map(target, count, Identity{}, static_cast<typename decltype(b)::type*>(out),
            static_cast<const typename decltype(a)::type*>(in));
      });
    });
    return;
  }
  with_float_type(from, [&](auto a) {
    with_float_type(to, [&](auto b) {
      cast_kernel<<<strided_grid(target, count), kThreads, 0, target.stream>>>(
          static_cast<const typename decltype(a)::type*>(in), static_cast<typename decltype(b)::type*>(out), count);
    });
  });
  check_launch("cast");
}

void add(const Target& target, DType type, const void* a, const void* b, void* out, std::int64_t count) {
  with_compute_type(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    map(target, count, Plus{}, static_cast<T*>(out), static_cast<const T*>(a), static_cast<const T*>(b));
  });
}

void scale(const Target& target, DType type, void* data, float factor, std::int64_t count) {
  with_compute_type(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    map(target, count, Times{factor}, static_cast<T*>(data), static_cast<const T*>(data));
  });
}

void add_bias(const Target& target, DType type, const void* bias, DType bias_type, void* out, std::int64_t rows,
              std::int64_t columns) {
  const std::int64_t count = rows * columns;
  if (count == 0) return;
  with_compute_type(type, [&](auto tag) {
    with_compute_type(bias_type, [&](auto bias_tag) {
      add_bias_kernel<<<grid_of(count, kThreads), kThreads, 0, target.stream>>>(
          static_cast<const typename decltype(bias_tag)::type*>(bias), static_cast<typename decltype(tag)::type*>(out),
          count, columns);
    });
  });
  check_launch("add_bias");
}

void fill_normal(const Target& target, DType type, void* out, std::int64_t rows, std::int64_t columns,
                 std::uint64_t key, std::int64_t first_row, std::int64_t first_column, std::int64_t logical_columns,
                 float mean, float deviation) {
  if (rows * columns == 0) return;
  const std::int64_t blocks_per_row = divide_up<std::int64_t>(columns, 4) + 1;
  with_compute_type(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    normal_kernel<<<grid_of(rows * blocks_per_row, kThreads), kThreads, 0, target.stream>>>(
        static_cast<T*>(out), rows, columns, blocks_per_row, key, first_row, first_column, logical_columns, mean,
        deviation);
  });
  check_launch("fill_normal");
}

}  // namespace railyard::cuda
