// Activations of the MLP, gated and plain, forward and backward.
#include "runtime/compute/cuda/kernels/launch.cuh"

namespace railyard::cuda {
namespace {

constexpr int kThreads = 256;

struct Slope {
  float value, derivative;
};

// By one exponential: exact to about 1e-7 of one, which is enough where it is added to one or rounded to bf16.
template <class T>
__device__ __forceinline__ float tangent(float x) {
  if constexpr (sizeof(T) == 4) return tanhf(x);
  return 1.0F - __fdividef(2.0F, 1.0F + __expf(2.0F * fminf(x, 40.0F)));
}

template <class T, Curve kCurve>
__device__ __forceinline__ Slope curve_at(float x) {
  if constexpr (kCurve == Curve::kGelu) {
    const float cumulative = 0.5F * (1.0F + erff(x * 0.70710678118654752F));
    return {x * cumulative, cumulative + x * 0.39894228040143268F * __expf(-0.5F * x * x)};
  } else if constexpr (kCurve == Curve::kGeluTanh) {
    const float square = x * x, inner = 0.79788456080286536F * x * (1.0F + 0.044715F * square);
    const float t = tangent<T>(inner), slope = 0.79788456080286536F * (1.0F + 3.0F * 0.044715F * square);
    return {0.5F * x * (1.0F + t), 0.5F * (1.0F + t) + 0.5F * x * (1.0F - t * t) * slope};
  } else if constexpr (kCurve == Curve::kSilu) {
    const float sigmoid = 1.0F / (1.0F + __expf(-x));
    return {x * sigmoid, sigmoid * (1.0F + x * (1.0F - sigmoid))};
  } else {
    const float positive = fmaxf(x, 0.0F);
    return {positive * positive, 2.0F * positive};
  }
}

// A thread does W columns of one row; gated rows of u are [gate | up].
template <class T, int W, Curve kCurve>
__global__ void forward_kernel(bool gated, std::int64_t columns, const T* u, T* s) {
  const auto [row, column] = row_place<kThreads, W>(columns);
  if (column >= columns) return;
  const T* gate = u + row * columns * (gated ? 2 : 1) + column;
  const Pack<T, W> g = load<T, W>(gate);
  Pack<T, W> up{}, out;
  if (gated) up = load<T, W>(gate + columns);
#pragma unroll
  for (int lane = 0; lane < W; ++lane) {
    const float value = curve_at<T, kCurve>(to_float(g.x[lane])).value;
    out.x[lane] = from_float<T>(gated ? value * to_float(up.x[lane]) : value);
  }
  store(s + row * columns + column, out);
}

template <class T, int W, Curve kCurve>
__global__ void backward_kernel(bool gated, std::int64_t columns, const T* u, const T* grad_s, T* grad_u, T* s) {
  const auto [row, column] = row_place<kThreads, W>(columns);
  if (column >= columns) return;
  const std::int64_t at = row * columns * (gated ? 2 : 1) + column;
  const Pack<T, W> g = load<T, W>(u + at), grad = load<T, W>(grad_s + row * columns + column);
  Pack<T, W> up{}, grad_gate, grad_up, out;
  if (gated) up = load<T, W>(u + at + columns);
#pragma unroll
  for (int lane = 0; lane < W; ++lane) {
    const Slope slope = curve_at<T, kCurve>(to_float(g.x[lane]));
    const float gradient = to_float(grad.x[lane]), factor = gated ? to_float(up.x[lane]) : 1.0F;
    grad_gate.x[lane] = from_float<T>(gradient * factor * slope.derivative);
    grad_up.x[lane] = from_float<T>(gradient * slope.value);
    out.x[lane] = from_float<T>(slope.value * factor);
  }
  store(grad_u + at, grad_gate);
  if (gated) store(grad_u + at + columns, grad_up);
  if (s != nullptr) store(s + row * columns + column, out);
}

template <class F>
void with_curve(Curve curve, F&& f) {
  switch (curve) {
    case Curve::kGelu:
      return f(std::integral_constant<Curve, Curve::kGelu>{});
    case Curve::kGeluTanh:
      return f(std::integral_constant<Curve, Curve::kGeluTanh>{});
    case Curve::kSilu:
      return f(std::integral_constant<Curve, Curve::kSilu>{});
    case Curve::kSquaredRelu:
      return f(std::integral_constant<Curve, Curve::kSquaredRelu>{});
  }
}

// f(Type<T>, width, curve, grid)
template <class F>
void with_kernel(DType type, Curve curve, std::int64_t rows, std::int64_t columns, bool is_aligned, F&& f) {
  with_compute_type(type, [&](auto tag) {
    constexpr int kFull = kPackOf<typename decltype(tag)::type>;
    with_curve(curve, [&](auto which) {
      const auto run = [&](auto width) {
        f(tag, width, which, row_grid(rows, columns, kThreads, decltype(width)::value));
      };
      if (is_aligned && columns % kFull == 0)
        run(std::integral_constant<int, kFull>{});
      else
        run(std::integral_constant<int, 1>{});
    });
  });
}

}  // namespace

void activation_forward(const Target& target, DType type, Curve curve, bool gated, std::int64_t rows,
                        std::int64_t columns, const void* u, void* s) {
  if (rows * columns == 0) return;
  with_kernel(type, curve, rows, columns, aligned({u, s}), [&](auto tag, auto width, auto which, unsigned grid) {
    using T = typename decltype(tag)::type;
    forward_kernel<T, decltype(width)::value, decltype(which)::value>
        <<<grid, kThreads, 0, target.stream>>>(gated, columns, static_cast<const T*>(u), static_cast<T*>(s));
  });
  check_launch("activation_forward");
}

void activation_backward(const Target& target, DType type, Curve curve, bool gated, std::int64_t rows,
                         std::int64_t columns, const void* u, const void* grad_s, void* grad_u, void* s) {
  if (rows * columns == 0) return;
  with_kernel(type, curve, rows, columns, aligned({u, grad_s, grad_u, s}),
              [&](auto tag, auto width, auto which, unsigned grid) {
                using T = typename decltype(tag)::type;
                backward_kernel<T, decltype(width)::value, decltype(which)::value>
                    <<<grid, kThreads, 0, target.stream>>>(gated, columns, static_cast<const T*>(u),
                                                           static_cast<const T*>(grad_s), static_cast<T*>(grad_u),
                                                           static_cast<T*>(s));
              });
  check_launch("activation_backward");
}

}  // namespace railyard::cuda
