// The CUDA backend's 8-bit copies: shapes checked, kernels launched.
#include "runtime/compute/cuda/cuda_backend.hpp"

namespace railyard::cuda {
namespace {

bool is_e4m3(DType type) {
  RAILYARD_CHECK(type == DType::kFloat8E4M3 || type == DType::kFloat8E5M2, "{} is no 8-bit float", dtype_name(type));
  return type == DType::kFloat8E4M3;
}

QuantizeArguments arguments_of(const Tensor& in, const Tensor& out, const Tensor& transposed) {
  RAILYARD_CHECK(in.rows() % 16 == 0 && in.columns() % 16 == 0, "{} x {} in 8 bits", in.rows(), in.columns());
  RAILYARD_CHECK(in.dtype == DType::kFloat32 || in.dtype == DType::kBFloat16, "{}", dtype_name(in.dtype));
  const Tensor& either = out.defined() ? out : transposed;
  RAILYARD_CHECK(either.elements() == in.elements() && either.scale != nullptr, "8-bit copy");
  RAILYARD_CHECK(!transposed.defined() || (transposed.elements() == in.elements() && transposed.dtype == either.dtype),
                 "transposed 8-bit copy");
  return {in.data,
          out.as<std::uint8_t>(),
          transposed.as<std::uint8_t>(),
          in.rows(),
          in.columns(),
          is_e4m3(either.dtype),
          either.scale,
          nullptr,
          nullptr,
          nullptr,
          0,
          0};
}

}  // namespace

void CudaBackend::amax(const Tensor& tensor, const Tensor& maximum) {
  cuda::amax(target(), tensor.dtype, tensor.data, tensor.elements(), maximum.as<float>());
}

void CudaBackend::scale_from_amax(const Tensor& maximum, DType type, const Tensor& scale) {
  scale_of_maximum(target(), maximum.as<float>(), nullptr, 0, is_e4m3(type), scale.as<float>());
}

void CudaBackend::scale_from_history(const Tensor& maximum, const Tensor& history, DType type, const Tensor& scale) {
  RAILYARD_CHECK(history.elements() > 0 && history.dtype == DType::kFloat32, "history");
  scale_of_maximum(target(), maximum.as<float>(), history.as<float>(), history.elements(), is_e4m3(type),
                   scale.as<float>());
}

void CudaBackend::quantize(const Tensor& in, const Tensor& out, const Tensor& transposed, const Tensor& maximum) {
  QuantizeArguments arguments = arguments_of(in, out, transposed);
  arguments.maximum = maximum.as<float>();
  cuda::quantize(target(), QuantizeMode::kTensor, in.dtype, arguments);
}

void CudaBackend::quantize_blocks(Scaling scaling, const Tensor& in, const Tensor& out, const Tensor& transposed) {
  RAILYARD_CHECK(scaling != Scaling::kTensor, "blocks");
  RAILYARD_CHECK(!transposed.defined() || transposed.scale != nullptr, "transposed 8-bit copy");
  RAILYARD_CHECK(transposed.defined() || transposed.scale == nullptr || scaling == Scaling::kBlock128, "scales alone");
  QuantizeArguments arguments = arguments_of(in, out, transposed);
  // These scales are an output.
  arguments.scales = const_cast<float*>(out.scale);
  arguments.scales_turned = const_cast<float*>(transposed.scale);
  arguments.scales_stride = scales_shape(scaling, in.rows(), in.columns())[1];
  arguments.scales_turned_stride = scales_shape(scaling, in.columns(), in.rows())[1];
  cuda::quantize(target(), scaling == Scaling::kRow128 ? QuantizeMode::kRow128 : QuantizeMode::kBlock128, in.dtype,
                 arguments);
}

void CudaBackend::transpose(const Tensor& in, const Tensor& out) {
  RAILYARD_CHECK(dtype_size(in.dtype) == 1 && out.dtype == in.dtype && out.elements() == in.elements() &&
                     in.rows() % 16 == 0 && in.columns() % 16 == 0,
                 "transpose");
  transpose_bytes(target(), in.as<std::uint8_t>(), in.rows(), in.columns(), out.as<std::uint8_t>());
}

}  // namespace railyard::cuda
