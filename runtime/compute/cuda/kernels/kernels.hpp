// The CUDA kernels as the backend sees them: launchers that check nothing but their launch. Pointers are device memory;
// `type` is fp32 or bf16; what each computes is told in runtime/compute/backend.hpp. Sums have an order that depends on
// shapes and on `Target::processors` alone.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "runtime/base/dtype.hpp"

namespace railyard::cuda {

struct Target {
  cudaStream_t stream = nullptr;
  int processors = 1;  // multiprocessors of the device
};

struct Mask {
  float probability = 0.0F;  // 0: nothing is dropped
  std::uint64_t key = 0;
  const std::int64_t* sample_ids = nullptr;
  const std::int32_t* positions = nullptr;
  std::int64_t first_head = 0;
};

// ---- elementwise.cu ----
// Writes `count` elements of `size` bytes with the low bytes of `bits`.
void fill_bits(const Target& target, void* out, std::size_t size, std::int64_t count, std::uint64_t bits);
// Between fp32, bf16, fp16 and fp64.
void cast(const Target& target, const void* in, DType from, void* out, DType to, std::int64_t count);
void add(const Target& target, DType type, const void* a, const void* b, void* out, std::int64_t count);
void scale(const Target& target, DType type, void* data, float factor, std::int64_t count);
void add_bias(const Target& target, DType type, const void* bias, DType bias_type, void* out, std::int64_t rows,
              std::int64_t columns);
void fill_normal(const Target& target, DType type, void* out, std::int64_t rows, std::int64_t columns,
                 std::uint64_t key, std::int64_t first_row, std::int64_t first_column, std::int64_t logical_columns,
                 float mean, float deviation);

// ---- column_sum.cu ----
// Floats that column_sum needs.
std::int64_t column_sum_scratch(std::int64_t rows, std::int64_t columns);
// out [columns] += sum over rows of in [rows, columns].
void column_sum(const Target& target, DType type, const void* in, float* out, std::int64_t rows, std::int64_t columns,
                float* scratch);

// ---- norm.cu ----
struct NormShape {
  DType type;
  bool center;          // subtract the mean (layer norm)
  float weight_offset;  // added to the stored weight
  std::int64_t rows, columns;
};
// Whether the kernels can do this many columns.
bool norm_supported(const NormShape& shape);
void norm_forward(const Target& target, const NormShape& shape, const void* x, const void* weight, const void* bias,
                  float epsilon, void* y, float* mean, float* rstd);
std::int64_t norm_backward_scratch(const Target& target, const NormShape& shape);  // in floats
void norm_backward(const Target& target, const NormShape& shape, const void* grad_y, const void* x, const void* weight,
                   const float* mean, const float* rstd, const void* addend, void* grad_x, float* grad_weight,
                   float* grad_bias, float* scratch);

// ---- rope.cu ----
void rope(const Target& target, DType type, void* packed, std::int64_t tokens, std::int64_t columns, std::int64_t heads,
          std::int64_t head_size, const std::int32_t* positions, const float* cosine, const float* sine,
          std::int64_t half, bool inverse);

// ---- activation.cu ----
enum class Curve : int { kGelu, kGeluTanh, kSilu, kSquaredRelu };
void activation_forward(const Target& target, DType type, Curve curve, bool gated, std::int64_t rows,
                        std::int64_t columns, const void* u, void* s);
// s: null when not wanted.
void activation_backward(const Target& target, DType type, Curve curve, bool gated, std::int64_t rows,
                         std::int64_t columns, const void* u, const void* grad_s, void* grad_u, void* s);

// ---- residual.cu ----
// out = (residual or 0) + dropout(x + (bias or 0)).
void residual_add(const Target& target, DType type, std::int64_t rows, std::int64_t columns, const void* x,
                  const void* bias, const void* residual, const Mask& mask, void* out);

// ---- embedding.cu ----
void embedding_forward(const Target& target, DType type, const std::int32_t* ids, std::int64_t count,
                       std::int64_t columns, const void* table, std::int64_t first_row, std::int64_t table_rows,
                       bool accumulate, void* out);
std::size_t embedding_backward_scratch(std::int64_t count, std::int64_t columns, std::int64_t table_rows);  // in bytes
void embedding_backward(const Target& target, DType type, const std::int32_t* ids, std::int64_t count,
                        std::int64_t columns, const void* grad_out, std::int64_t first_row, std::int64_t table_rows,
                        float* grad_table, void* scratch, std::size_t scratch_bytes);

// ---- cross_entropy.cu ----
struct Logits {
  DType type;
  std::int64_t rows, columns, valid, first_column;
  const std::int32_t* labels;
};
void softmax_statistics(const Target& target, const Logits& shape, const void* logits, float* statistics);
void combine_statistics(const Target& target, const float* parts, std::int64_t ranks, std::int64_t rows,
                        const float* weights, float* log_sum_exp, double* loss);
void cross_entropy_gradient(const Target& target, const Logits& shape, void* logits, const float* log_sum_exp,
                            const float* weights, float factor);

// ---- optimizer.cu ----
std::int64_t squared_norm_scratch(std::int64_t count);  // in doubles
void squared_norm(const Target& target, const float* data, std::int64_t count, double* sum, double* scratch);
struct ScalarPlaces {  // positions in `scalars`, those of OptimizerScalars::Index
  int learning_rate, gradient_scale, bias_correction1, bias_correction2, gradient_norm, finite;
};
void clip_scale(const Target& target, const double* sum, float factor, float clip, const ScalarPlaces& places,
                float* scalars);
struct AdamWArguments {
  void* parameter;  // fp32, or bf16 with the rest of the weights' bits in `remainder`
  DType parameter_type;
  std::uint16_t* remainder;
  float *exp_avg, *exp_avg_sq;
  const float* grad;
  std::int64_t count;
  float beta1, beta2, epsilon, weight_decay;
};
void adamw(const Target& target, const AdamWArguments& arguments, const ScalarPlaces& places, const float* scalars);
void split_master(const Target& target, const float* weights, std::int64_t count, void* parameter,
                  std::uint16_t* remainder);

// ---- quantize.cu ----
enum class QuantizeMode : int { kTensor, kRow128, kBlock128 };
struct QuantizeArguments {
  const void* in;
  std::uint8_t *out, *out_turned;  // [rows, columns] and [columns, rows]; null: not wanted
  std::int64_t rows, columns;      // multiples of 8
  bool e4m3;                       // else e5m2
  const float* scale;              // kTensor: the scale to use, and where to raise the largest magnitude (or null)
  float* maximum;
  float *scales, *scales_turned;  // else: written, strides in elements
  std::int64_t scales_stride, scales_turned_stride;
};
void quantize(const Target& target, QuantizeMode mode, DType type, const QuantizeArguments& arguments);
// out [columns, rows] = in [rows, columns]; both extents multiples of 16.
void transpose_bytes(const Target& target, const std::uint8_t* in, std::int64_t rows, std::int64_t columns,
                     std::uint8_t* out);
// maximum = max(maximum, largest magnitude).
void amax(const Target& target, DType type, const void* in, std::int64_t count, float* maximum);
// The scale for *maximum, or with a history for the largest in it after *maximum was shifted in and zeroed.
void scale_of_maximum(const Target& target, float* maximum, float* history, std::int64_t length, bool e4m3,
                      float* scale);

// ---- attention_forward.cu, attention_backward.cu: any shape, in fp32 arithmetic ----
struct Heads {
  std::int64_t batch, length, q_heads, kv_heads, d_qk, d_v, window;
  float scale;
  const std::int32_t* first_keys = nullptr;  // [batch, length]; null: each query sees back to 0
};
inline constexpr std::int64_t kPlainHeadLimit = 256;  // largest d_qk and d_v
void plain_attention_forward(const Target& target, DType type, const Heads& heads, const void* packed, const Mask& mask,
                             void* out, float* log_sum_exp);
// `scratch` has batch * q_heads * length floats.
void plain_attention_backward(const Target& target, DType type, const Heads& heads, const void* packed, const void* out,
                              const float* log_sum_exp, const void* grad_out, const Mask& mask, void* grad_packed,
                              float* scratch);

// ---- head_norm.cu ----
void head_norm_forward(const Target& target, DType type, const Heads& heads, void* packed, const void* q_weight,
                       const void* k_weight, float epsilon, void* raw, float* rstd);
std::int64_t head_norm_backward_scratch(const Target& target, const Heads& heads);  // in floats
void head_norm_backward(const Target& target, DType type, const Heads& heads, void* grad_packed, const void* raw,
                        const void* q_weight, const void* k_weight, const float* rstd, float* grad_q_weight,
                        float* grad_k_weight, float* scratch);

}  // namespace railyard::cuda
