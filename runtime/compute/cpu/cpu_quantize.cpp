// The CPU backend's 8-bit numbers: the same arithmetic as on GPUs, element by element. For tests and small runs.
#include <algorithm>
#include <cmath>
#include <vector>

#include "runtime/compute/cpu/cpu_backend.hpp"

namespace railyard::cpu {
namespace {

constexpr std::int64_t kBlock = 128;

bool is_e4m3(DType type) {
  RAILYARD_CHECK(type == DType::kFloat8E4M3 || type == DType::kFloat8E5M2, "{} is no 8-bit float", dtype_name(type));
  return type == DType::kFloat8E4M3;
}

// Zero and not finite maxima have no scale of their own.
float scale_for(float maximum, DType type) {
  if (!(maximum > 0.0F) || !std::isfinite(maximum)) return 1.0F;
  return maximum / (is_e4m3(type) ? 448.0F : 57344.0F);
}

float element(const Tensor& tensor, std::int64_t index) {
  return tensor.dtype == DType::kBFloat16 ? bf16_to_float(tensor.as<std::uint16_t>()[index])
                                          : tensor.as<float>()[index];
}

// The larger magnitude; NaN is larger than any number.
float larger(float maximum, float value) {
  const float magnitude = std::fabs(value);
  return std::isnan(maximum) || magnitude <= maximum ? maximum : magnitude;
}

void write(const Tensor& out, std::int64_t index, float value) {
  out.as<std::uint8_t>()[index] = out.dtype == DType::kFloat8E4M3 ? float_to_fp8_e4m3(value) : float_to_fp8_e5m2(value);
}

void check_copy(const Tensor& in, const Tensor& out) {
  RAILYARD_CHECK(in.rows() % 16 == 0 && in.columns() % 16 == 0, "{} x {} in 8 bits", in.rows(), in.columns());
  RAILYARD_CHECK(out.elements() == in.elements() && out.scale != nullptr && dtype_size(out.dtype) == 1, "8-bit copy");
}

// Where the scale of an element lies.
std::int64_t scale_place(Scaling scaling, std::int64_t stride, std::int64_t row, std::int64_t column) {
  if (scaling == Scaling::kTensor) return 0;
  return scaling == Scaling::kRow128 ? column / kBlock * stride + row : row / kBlock * stride + column / kBlock;
}

// out [rows, columns] = in(row, column) in blocks, with scales written to out.scale.
template <class At>
void copy_blocks(Scaling scaling, std::int64_t rows, std::int64_t columns, const Tensor& out, const At& at) {
  const Shape shape = scales_shape(scaling, rows, columns);
  auto* scales = const_cast<float*>(out.scale);  // an output here
  const std::int64_t height = scaling == Scaling::kRow128 ? 1 : kBlock;
  for (std::int64_t top = 0; top < rows; top += height) {
    for (std::int64_t left = 0; left < columns; left += kBlock) {
      const std::int64_t bottom = std::min(rows, top + height), right = std::min(columns, left + kBlock);
      float maximum = 0.0F;
      for (std::int64_t row = top; row < bottom; ++row)
        for (std::int64_t column = left; column < right; ++column) maximum = larger(maximum, at(row, column));
      const float scale = scale_for(maximum, out.dtype), inverse = 1.0F / scale;
      scales[scale_place(scaling, shape[1], top, left)] = scale;
      for (std::int64_t row = top; row < bottom; ++row)
        for (std::int64_t column = left; column < right; ++column)
          write(out, row * columns + column, at(row, column) * inverse);
    }
  }
}

}  // namespace

void CpuBackend::amax(const Tensor& tensor, const Tensor& maximum) {
  float found = *maximum.as<float>();
  for (std::int64_t i = 0; i < tensor.elements(); ++i) found = larger(found, element(tensor, i));
  *maximum.as<float>() = found;
}

void CpuBackend::scale_from_amax(const Tensor& maximum, DType type, const Tensor& scale) {
  *scale.as<float>() = scale_for(*maximum.as<float>(), type);
}

void CpuBackend::scale_from_history(const Tensor& maximum, const Tensor& history, DType type, const Tensor& scale) {
  RAILYARD_CHECK(history.elements() > 0 && history.dtype == DType::kFloat32, "history");
  auto* values = history.as<float>();
  std::copy_backward(values, values + history.elements() - 1, values + history.elements());
  if (std::isfinite(*maximum.as<float>()))
    values[0] = *maximum.as<float>();
  else if (history.elements() > 1)
    values[0] = values[1];
  *maximum.as<float>() = 0.0F;
  float found = 0.0F;
  for (std::int64_t i = 0; i < history.elements(); ++i) found = larger(found, values[i]);
  *scale.as<float>() = scale_for(found, type);
}

void CpuBackend::quantize(const Tensor& in, const Tensor& out, const Tensor& transposed, const Tensor& maximum) {
  check_copy(in, out.defined() ? out : transposed);
  const std::int64_t rows = in.rows(), columns = in.columns();
  const float inverse = 1.0F / *(out.defined() ? out.scale : transposed.scale);
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t column = 0; column < columns; ++column) {
      const float value = element(in, row * columns + column) * inverse;
      if (out.defined()) write(out, row * columns + column, value);
      if (transposed.defined()) write(transposed, column * rows + row, value);
    }
  if (maximum.defined()) amax(in, maximum);
}

void CpuBackend::quantize_blocks(Scaling scaling, const Tensor& in, const Tensor& out, const Tensor& transposed) {
  RAILYARD_CHECK(scaling != Scaling::kTensor, "blocks");
  const std::int64_t rows = in.rows(), columns = in.columns();
  if (out.defined()) {
    check_copy(in, out);
    copy_blocks(scaling, rows, columns, out,
                [&](auto row, auto column) { return element(in, row * columns + column); });
  }
  if (transposed.defined()) {
    check_copy(in, transposed);
    copy_blocks(scaling, columns, rows, transposed,
                [&](auto row, auto column) { return element(in, column * columns + row); });
  } else if (transposed.scale != nullptr) {
    RAILYARD_CHECK(scaling == Scaling::kBlock128 && out.defined(), "scales alone");
    const std::int64_t stride = scales_shape(scaling, rows, columns)[1],
                       turned = scales_shape(scaling, columns, rows)[1];
    for (std::int64_t i = 0; i * kBlock < rows; ++i)
      for (std::int64_t j = 0; j * kBlock < columns; ++j)
        const_cast<float*>(transposed.scale)[j * turned + i] = out.scale[i * stride + j];
  }
}

void CpuBackend::transpose(const Tensor& in, const Tensor& out) {
  RAILYARD_CHECK(dtype_size(in.dtype) == 1 && out.dtype == in.dtype && out.elements() == in.elements(), "transpose");
  const std::int64_t rows = in.rows(), columns = in.columns();
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t column = 0; column < columns; ++column)
      out.as<std::uint8_t>()[column * rows + row] = in.as<std::uint8_t>()[row * columns + column];
}

void CpuBackend::gemm_8bit(const Gemm& arguments) {
  const auto widened = [](const Tensor& in, Scaling scaling, std::vector<float>& memory) {
    RAILYARD_CHECK(in.scale != nullptr, "an 8-bit operand without a scale");
    const std::int64_t rows = in.rows(), columns = in.columns();
    const Shape shape = scales_shape(scaling, rows, columns);
    const std::int64_t stride = shape.rank() == 2 ? shape[1] : 0;
    memory.resize(static_cast<std::size_t>(in.elements()));
    for (std::int64_t i = 0; i < in.elements(); ++i) {
      const std::uint8_t bits = in.as<std::uint8_t>()[i];
      const float value = in.dtype == DType::kFloat8E4M3 ? fp8_e4m3_to_float(bits) : fp8_e5m2_to_float(bits);
      memory[static_cast<std::size_t>(i)] = value * in.scale[scale_place(scaling, stride, i / columns, i % columns)];
    }
    return Tensor{memory.data(), DType::kFloat32, in.shape};
  };
  std::vector<float> a, b, product(static_cast<std::size_t>(arguments.d.elements()));
  const Tensor d{product.data(), DType::kFloat32, arguments.d.shape};
  matmul_.run({.a = widened(arguments.a, arguments.a_scaling, a),
               .transpose_a = arguments.transpose_a,
               .b = widened(arguments.b, arguments.b_scaling, b),
               .transpose_b = arguments.transpose_b,
               .d = d});
  const Tensor& out = arguments.d;
  const std::int64_t columns = out.columns();
  for (std::int64_t i = 0; i < out.elements(); ++i) {
    float value = product[static_cast<std::size_t>(i)];
    if (arguments.bias.defined()) value += element(arguments.bias, i % columns);
    if (arguments.addend.defined()) value += element(arguments.addend, i);
    if (arguments.accumulate) value += element(out, i);
    if (out.dtype == DType::kBFloat16)
      out.as<std::uint16_t>()[i] = float_to_bf16(value);
    else
      out.as<float>()[i] = value;
  }
}

}  // namespace railyard::cpu
