// The CPU backend's memory, elementwise operations, losses and optimizer.
#include "runtime/compute/cpu/cpu_backend.hpp"

#include <omp.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "runtime/base/philox.hpp"

namespace railyard::cpu {
namespace {

constexpr std::size_t kAlignment = 256;
// Buffers of several of these ask for huge pages: fewer page faults at the start, fewer misses of the page table's
// cache.
constexpr std::size_t kHugePage = std::size_t{2} << 20U;

std::size_t physical_memory() {
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? static_cast<std::size_t>(pages) * static_cast<std::size_t>(page) : 0;
}

const char* instruction_set(const Kernels& kernels) {
  if (std::strcmp(kernels.name, "avx512") == 0) return ", AVX-512";
  return std::strcmp(kernels.name, "avx2") == 0 ? ", AVX2" : "";
}

bool is_compute_type(DType type) { return type == DType::kFloat32 || type == DType::kBFloat16; }

// Elements of a block of four of the normal stream, by Box and Muller (1958).
void normal_block(std::uint64_t block, std::uint64_t key, float numbers[4]) {
  const PhiloxBlock bits =
      philox4x32(static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0, 0, key);
  for (int pair = 0; pair < 2; ++pair) {
    const float radius = std::sqrt(-2.0F * std::log(uniform_open(bits.x[2 * pair])));
    const float angle = 6.28318530717958648F * uniform_open(bits.x[2 * pair + 1]);
    numbers[2 * pair] = radius * std::cos(angle);
    numbers[2 * pair + 1] = radius * std::sin(angle);
  }
}

void write_element(void* data, DType type, std::int64_t index, float value) {
  if (type == DType::kBFloat16) {
    static_cast<std::uint16_t*>(data)[index] = float_to_bf16(value);
  } else {
    static_cast<float*>(data)[index] = value;
  }
}

}  // namespace

CpuBackend::CpuBackend(const CpuOptions& options, const Kernels& kernels)
    : threads_(options.threads),
      kernels_(kernels),
      memory_limit_(physical_memory()),
      in_use_(std::make_shared<std::atomic<std::size_t>>(0)),
      matmul_(options.threads, kernels) {
  RAILYARD_CHECK(options.threads >= 1, "{} threads", options.threads);
  omp_set_num_threads(threads_);
  description_ = fmt::format("CPU, {} thread{}{}", threads_, threads_ == 1 ? "" : "s", instruction_set(kernels_));
}

float* CpuBackend::scratch(std::int64_t count) {
  if (scratch_.size() < static_cast<std::size_t>(count)) scratch_.resize(static_cast<std::size_t>(count));
  return scratch_.data();
}

Buffer CpuBackend::allocate(std::size_t bytes) {
  const std::size_t used = *in_use_;
  const bool fits = memory_limit_ == 0 || (bytes <= memory_limit_ && used <= memory_limit_ - bytes);
  const std::size_t alignment = bytes >= 2 * kHugePage ? kHugePage : kAlignment;
  const std::size_t rounded = (std::max(bytes, std::size_t{1}) + alignment - 1) / alignment * alignment;
  void* data = fits ? std::aligned_alloc(alignment, rounded) : nullptr;
  // Only advice: a kernel without huge pages says no, and nothing is lost.
  if (data != nullptr && alignment == kHugePage) static_cast<void>(madvise(data, rounded, MADV_HUGEPAGE));
  if (data == nullptr)
    throw RunError(
        "out of memory: {:.2f} GiB wanted, {:.2f} GiB in use of {:.2f} GiB; make the model, the micro-batch or the "
        "sequence smaller, or use more ranks",
        static_cast<double>(bytes) / (1U << 30U), static_cast<double>(used) / (1U << 30U),
        static_cast<double>(memory_limit_) / (1U << 30U));
  *in_use_ += bytes;
  return {data, bytes, [counter = in_use_, bytes](void* memory) {
            std::free(memory);
            *counter -= bytes;
          }};
}

void CpuBackend::copy_from_host(std::span<const std::byte> host, const Tensor& device) {
  RAILYARD_CHECK(host.size() == device.bytes(), "{} bytes into {}", host.size(), device.bytes());
  if (!host.empty()) std::memcpy(device.data, host.data(), host.size());
}

void CpuBackend::copy_to_host(const Tensor& device, std::span<std::byte> host) {
  RAILYARD_CHECK(host.size() == device.bytes(), "{} bytes into {}", device.bytes(), host.size());
  if (!host.empty()) std::memcpy(host.data(), device.data, host.size());
}

void CpuBackend::copy(const Tensor& from, const Tensor& to) {
  RAILYARD_CHECK(from.dtype == to.dtype && from.elements() == to.elements(), "copy");
  if (from.data == to.data || from.bytes() == 0) return;
  if (is_compute_type(from.dtype)) {
    kernels_.cast(threads_, from.dtype, to.dtype, from.elements(), from.data, to.data);
  } else {
    std::memcpy(to.data, from.data, from.bytes());
  }
}

void CpuBackend::zero(const Tensor& out) {
  if (is_compute_type(out.dtype)) {
    kernels_.fill(threads_, out.dtype, out.elements(), 0.0F, out.data);
  } else if (out.bytes() > 0) {
    std::memset(out.data, 0, out.bytes());
  }
}

void CpuBackend::fill(const Tensor& out, float value) {
  if (is_compute_type(out.dtype)) return kernels_.fill(threads_, out.dtype, out.elements(), value, out.data);
  const std::size_t size = dtype_size(out.dtype);
  std::byte element[8];
  convert_elements(&value, DType::kFloat32, element, out.dtype, 1);
  for (std::int64_t i = 0; i < out.elements(); ++i)
    std::memcpy(static_cast<std::byte*>(out.data) + static_cast<std::size_t>(i) * size, element, size);
}

void CpuBackend::fill_normal(const Tensor& out, std::uint64_t key, std::int64_t first_row, std::int64_t first_column,
                             std::int64_t logical_columns, float mean, float deviation) {
  RAILYARD_CHECK(is_compute_type(out.dtype), "{}", dtype_name(out.dtype));
  const std::int64_t rows = out.rows(), columns = out.columns();
#pragma omp parallel for num_threads(threads_) schedule(static)
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto begin = static_cast<std::uint64_t>((first_row + row) * logical_columns + first_column);
    const std::uint64_t end = begin + static_cast<std::uint64_t>(columns);
    for (std::uint64_t block = begin / 4; block * 4 < end; ++block) {
      float numbers[4];
      normal_block(block, key, numbers);
      for (std::uint64_t lane = 0; lane < 4; ++lane) {
        const std::uint64_t element = block * 4 + lane;
        if (element < begin || element >= end) continue;
        write_element(out.data, out.dtype, row * columns + static_cast<std::int64_t>(element - begin),
                      mean + deviation * numbers[lane]);
      }
    }
  }
}

void CpuBackend::cast(const Tensor& in, const Tensor& out) {
  RAILYARD_CHECK(in.elements() == out.elements(), "cast");
  if (is_compute_type(in.dtype) && is_compute_type(out.dtype)) {
    kernels_.cast(threads_, in.dtype, out.dtype, in.elements(), in.data, out.data);
  } else {
    convert_elements(in.data, in.dtype, out.data, out.dtype, static_cast<std::size_t>(in.elements()));
  }
}

void CpuBackend::add(const Tensor& a, const Tensor& b, const Tensor& out) {
  RAILYARD_CHECK(is_compute_type(out.dtype) && a.dtype == out.dtype && b.dtype == out.dtype, "add");
  RAILYARD_CHECK(a.elements() == out.elements() && b.elements() == out.elements(), "add");
  kernels_.add(threads_, out.dtype, out.elements(), a.data, b.data, out.data);
}

void CpuBackend::scale(const Tensor& tensor, float factor) {
  RAILYARD_CHECK(is_compute_type(tensor.dtype), "{}", dtype_name(tensor.dtype));
  kernels_.scale(threads_, tensor.dtype, tensor.elements(), factor, tensor.data);
}

void CpuBackend::gemm(const Gemm& arguments) {
  if (dtype_size(arguments.a.dtype) == 1) return gemm_8bit(arguments);
  matmul_.run(arguments);
}

void CpuBackend::bias_gradient(const Tensor& grad, const Tensor& grad_bias) {
  RAILYARD_CHECK(grad_bias.dtype == DType::kFloat32 && grad_bias.elements() == grad.columns(), "bias_gradient");
  kernels_.bias_gradient(threads_, grad.dtype, grad.rows(), grad.columns(), grad.data, grad_bias.as<float>(),
                         scratch(sum_blocks(grad.rows()) * grad.columns()));
}

void CpuBackend::embedding_forward(const Tensor& ids, const Tensor& table, std::int64_t first_row, bool accumulate,
                                   const Tensor& out) {
  RAILYARD_CHECK(out.rows() == ids.elements() && out.columns() == table.columns() && out.dtype == table.dtype,
                 "embedding");
  kernels_.embedding_forward({threads_, out.dtype, ids.elements(), out.columns(), first_row, table.rows(),
                              ids.as<std::int32_t>(), table.data, out.data, accumulate, nullptr, nullptr});
}

void CpuBackend::embedding_backward(const Tensor& ids, const Tensor& grad_out, std::int64_t first_row,
                                    const Tensor& grad_table) {
  RAILYARD_CHECK(grad_out.rows() == ids.elements() && grad_out.columns() == grad_table.columns(), "embedding");
  RAILYARD_CHECK(grad_table.dtype == DType::kFloat32, "embedding");
  kernels_.embedding_backward({threads_, grad_out.dtype, ids.elements(), grad_out.columns(), first_row,
                               grad_table.rows(), ids.as<std::int32_t>(), nullptr, nullptr, false, grad_out.data,
                               grad_table.as<float>()});
}

void CpuBackend::softmax_statistics(const Tensor& logits, std::int64_t valid, const Tensor& labels,
                                    std::int64_t first_column, const Tensor& statistics) {
  RAILYARD_CHECK(valid >= 0 && valid <= logits.columns() && labels.elements() == logits.rows(), "softmax_statistics");
  RAILYARD_CHECK(statistics.elements() == 3 * logits.rows(), "softmax_statistics");
  kernels_.softmax_statistics({threads_, logits.dtype, logits.rows(), logits.columns(), valid, first_column,
                               logits.data, labels.as<std::int32_t>(), statistics.as<float>(), nullptr, nullptr, 1.0F});
}

void CpuBackend::combine_statistics(const Tensor& parts, const Tensor& weights, const Tensor& log_sum_exp,
                                    const Tensor& loss) {
  const std::int64_t rows = weights.elements(), ranks = rows == 0 ? 0 : parts.elements() / (3 * rows);
  RAILYARD_CHECK(parts.elements() == 3 * rows * ranks && log_sum_exp.elements() == rows, "combine_statistics");
  RAILYARD_CHECK(loss.dtype == DType::kFloat64, "combine_statistics");
  const auto* part = parts.as<float>();
  double sum = 0.0;
  for (std::int64_t row = 0; row < rows; ++row) {
    float maximum = -std::numeric_limits<float>::infinity();
    for (std::int64_t rank = 0; rank < ranks; ++rank) maximum = std::fmax(maximum, part[(rank * rows + row) * 3]);
    float total = 0.0F, label = 0.0F;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const float* at = part + (rank * rows + row) * 3;
      // A rank whose columns are all padding has no maximum.
      if (at[1] != 0.0F) total += at[1] * std::exp(at[0] - maximum);
      label += at[2];
    }
    const float value = maximum + std::log(total);
    log_sum_exp.as<float>()[row] = value;
    const float weight = weights.as<float>()[row];
    if (weight != 0.0F) sum += static_cast<double>(weight) * (static_cast<double>(value) - static_cast<double>(label));
  }
  *loss.as<double>() += sum;
}

void CpuBackend::cross_entropy_gradient(const Tensor& logits, std::int64_t valid, const Tensor& labels,
                                        std::int64_t first_column, const Tensor& log_sum_exp, const Tensor& weights,
                                        float factor) {
  RAILYARD_CHECK(valid >= 0 && valid <= logits.columns() && labels.elements() == logits.rows(),
                 "cross_entropy_gradient");
  kernels_.cross_entropy_gradient({threads_, logits.dtype, logits.rows(), logits.columns(), valid, first_column,
                                   logits.data, labels.as<std::int32_t>(), nullptr, log_sum_exp.as<float>(),
                                   weights.as<float>(), factor});
}

void CpuBackend::squared_norm(const Tensor& tensor, const Tensor& sum) {
  RAILYARD_CHECK(tensor.dtype == DType::kFloat32 && sum.dtype == DType::kFloat64, "squared_norm");
  const std::int64_t blocks = squared_norm_blocks(tensor.elements());
  std::vector<double> partial(static_cast<std::size_t>(blocks));
  *sum.as<double>() += kernels_.squared_norm(threads_, tensor.elements(), tensor.as<float>(), partial.data());
}

void CpuBackend::clip_scale(const Tensor& sum, float factor, float clip, const OptimizerScalars& scalars) {
  auto* values = scalars.values.as<float>();
  const double squares = *sum.as<double>();
  const auto norm = static_cast<float>(std::sqrt(squares) * factor);
  const bool finite = std::isfinite(squares) && std::isfinite(norm);
  values[OptimizerScalars::kGradientNorm] = norm;
  values[OptimizerScalars::kGradientScale] = clip > 0.0F ? factor * std::fmin(1.0F, clip / (norm + 1e-6F)) : factor;
  values[OptimizerScalars::kFinite] = finite ? 1.0F : 0.0F;
}

void CpuBackend::adamw(const AdamW& a, const OptimizerScalars& scalars) {
  const std::int64_t count = a.parameter.elements();
  RAILYARD_CHECK(a.exp_avg.elements() == count && a.exp_avg_sq.elements() == count && a.grad.elements() == count &&
                     a.remainder.defined() == (a.parameter.dtype == DType::kBFloat16) &&
                     (!a.remainder.defined() || a.remainder.elements() == count),
                 "adamw");
  const auto* values = scalars.values.as<float>();
  if (values[OptimizerScalars::kFinite] == 0.0F) return;
  kernels_.adamw({threads_, count, a.parameter.dtype, a.parameter.data, a.remainder.as<std::uint16_t>(),
                  a.exp_avg.as<float>(), a.exp_avg_sq.as<float>(), a.grad.as<float>(), a.beta1, a.beta2, a.epsilon,
                  a.weight_decay, values[OptimizerScalars::kLearningRate], values[OptimizerScalars::kGradientScale],
                  values[OptimizerScalars::kBiasCorrection1], values[OptimizerScalars::kBiasCorrection2]});
}

void CpuBackend::split_master(const Tensor& weights, const Tensor& parameter, const Tensor& remainder) {
  const std::int64_t count = weights.elements();
  RAILYARD_CHECK(weights.dtype == DType::kFloat32 && parameter.dtype == DType::kBFloat16 &&
                     parameter.elements() == count && remainder.elements() == count,
                 "split_master");
  kernels_.split_master(threads_, count, weights.as<float>(), parameter.data, remainder.as<std::uint16_t>());
}

}  // namespace railyard::cpu

namespace railyard {

std::unique_ptr<Backend> make_cpu_backend(const CpuOptions& options) {
  return std::make_unique<cpu::CpuBackend>(options);
}

}  // namespace railyard
