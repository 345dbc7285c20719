// Activations of the MLP, plain and gated, forward and backward.
#include "runtime/compute/cpu/kernels/math.hpp"
#include "runtime/compute/cpu/kernels/operations.hpp"

namespace railyard::cpu::RAILYARD_ISA {
namespace {

// Hendrycks & Gimpel, 2016: x Phi(x).
struct Gelu {
  static Floats value(Floats x) { return x * normal_distribution(x); }
  static void value_and_slope(Floats x, Floats& value, Floats& slope) {
    const Floats phi = normal_distribution(x);
    value = x * phi;
    slope = phi + x * normal_density(x);
  }
};

// The same paper's approximation by tanh.
struct GeluTanh {
  static constexpr float kScale = 0.79788456080286536F, kCubic = 0.044715F;
  static Floats value(Floats x) { return 0.5F * x * (1.0F + hyperbolic_tangent(kScale * (x + kCubic * x * x * x))); }
  static void value_and_slope(Floats x, Floats& value, Floats& slope) {
    const Floats tanh = hyperbolic_tangent(kScale * (x + kCubic * x * x * x));
    value = 0.5F * x * (1.0F + tanh);
    slope = 0.5F * (1.0F + tanh) + 0.5F * x * (1.0F - tanh * tanh) * kScale * (1.0F + 3.0F * kCubic * x * x);
  }
};

struct Silu {
  static Floats value(Floats x) { return x * sigmoid(x); }
  static void value_and_slope(Floats x, Floats& value, Floats& slope) {
    const Floats gate = sigmoid(x);
    value = x * gate;
    slope = gate * (1.0F + x * (1.0F - gate));
  }
};

// So, Manke, Liu et al., Primer, 2021.
struct SquaredRelu {
  static Floats value(Floats x) {
    const Floats positive = x < 0.0F ? Floats{} : x;
    return positive * positive;
  }
  static void value_and_slope(Floats x, Floats& value, Floats& slope) {
    const Floats positive = x < 0.0F ? Floats{} : x;
    value = positive * positive;
    slope = 2.0F * positive;
  }
};

template <class Body>
void with_curve(Curve curve, const Body& body) {
  switch (curve) {
    case Curve::kGelu:
      return body(Gelu{});
    case Curve::kGeluTanh:
      return body(GeluTanh{});
    case Curve::kSilu:
      return body(Silu{});
    case Curve::kSquaredRelu:
      return body(SquaredRelu{});
  }
}

template <class T, class Function>
void forward(const ActivationPass& a) {
  const auto* u = static_cast<const T*>(a.u);
  auto* s = static_cast<T*>(a.s);
  const std::int64_t f = a.columns, input_columns = a.gated ? 2 * f : f;
  parallel_ranges(a.threads, a.rows, f, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const T* in = u + row * input_columns;
      for_vectors(f, [&](std::int64_t i, auto part) {
        Floats value = Function::value(load(in + i, part));
        if (a.gated) value *= load(in + f + i, part);
        store(s + row * f + i, value, part);
      });
    }
  });
}

template <class T, class Function>
void backward(const ActivationPass& a) {
  const auto* u = static_cast<const T*>(a.u);
  const auto* grad_s = static_cast<const T*>(a.grad_s);
  auto* s = static_cast<T*>(a.s);
  auto* grad_u = static_cast<T*>(a.grad_u);
  const std::int64_t f = a.columns, input_columns = a.gated ? 2 * f : f;
  parallel_ranges(a.threads, a.rows, f, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const T* in = u + row * input_columns;
      T* out = grad_u + row * input_columns;
      for_vectors(f, [&](std::int64_t i, auto part) {
        const Floats gradient = load(grad_s + row * f + i, part);
        Floats value, slope;
        Function::value_and_slope(load(in + i, part), value, slope);
        if (a.gated) {
          const Floats up = load(in + f + i, part);
          if (s != nullptr) store(s + row * f + i, value * up, part);
          store(out + i, gradient * up * slope, part);
          store(out + f + i, gradient * value, part);
        } else {
          if (s != nullptr) store(s + row * f + i, value, part);
          store(out + i, gradient * slope, part);
        }
      });
    }
  });
}

}  // namespace

void activation_forward(const ActivationPass& arguments) {
  visit(arguments.type, [&](auto element) {
    with_curve(arguments.curve, [&](auto curve) { forward<decltype(element), decltype(curve)>(arguments); });
  });
}

void activation_backward(const ActivationPass& arguments) {
  visit(arguments.type, [&](auto element) {
    with_curve(arguments.curve, [&](auto curve) { backward<decltype(element), decltype(curve)>(arguments); });
  });
}

}  // namespace railyard::cpu::RAILYARD_ISA
