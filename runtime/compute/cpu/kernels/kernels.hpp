// The CPU backend's own kernels: what each takes, and the table of them that is built once per instruction set.
//
// Pointers are to dense row-major memory; `type` is the compute dtype (fp32 or bf16) of untyped pointers. Results do
// not depend on `threads`: work is cut into blocks of fixed size, and sums over blocks are taken in their order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/base/dtype.hpp"

namespace railyard::cpu {

// Dropout of Backend's definition; probability 0 means none.
struct Mask {
  float probability = 0.0F;
  std::uint64_t key = 0;
  const std::int64_t* sample_ids = nullptr;  // [rows]
  const std::int32_t* positions = nullptr;   // [rows]
  std::int64_t first_head = 0;
};

// Rows that one block of a column sum covers.
inline constexpr std::int64_t kSumRows = 32;
constexpr std::int64_t sum_blocks(std::int64_t rows) { return (rows + kSumRows - 1) / kSumRows; }

struct Norm {
  int threads;
  DType type;
  bool center;       // LayerNorm; else RMSNorm
  float weight_add;  // 1 for layernorm1p, else 0
  std::int64_t rows, columns;
  float epsilon;
  const void *x, *weight, *bias;  // bias may be null
  void* y;
  float *mean, *rstd;
};

struct NormBackward {
  int threads;
  DType type;
  bool center;
  float weight_add;
  std::int64_t rows, columns;
  const void *grad_y, *x, *weight, *addend;  // addend may be null
  const float *mean, *rstd;
  void* grad_x;
  float *grad_weight, *grad_bias;  // may be null
  float* partial;                  // [sum_blocks(rows), 2, columns]
};

struct Heads {
  std::int64_t batch, length, q_heads, kv_heads, d_qk, d_v, window;
  float scale;
  std::int64_t packed_columns, output_columns;
};

struct HeadNorm {
  int threads;
  DType type;
  Heads heads;
  float epsilon;                         // forward
  void *packed, *raw;                    // backward: the gradient, and what forward kept
  const void *q_weight, *k_weight;       // [d_qk]
  float* rstd;                           // [tokens, q_heads + kv_heads]
  float *grad_q_weight, *grad_k_weight;  // backward
  float* partial;                        // backward: [sum_blocks(tokens), 2, d_qk]
};

struct Rope {
  int threads;
  DType type;
  Heads heads;
  void* packed;
  const std::int32_t* positions;
  const float *cosine, *sine;
  std::int64_t pairs;
  bool inverse;
};

struct Attention {
  int threads;
  DType type;
  Heads heads;
  Mask mask;
  const std::int32_t* first_keys;       // [batch, length]; null: each query sees back to 0
  const void *packed, *out, *grad_out;  // the last: backward only
  void *output, *grad_packed;           // forward's and backward's result
  float* log_sum_exp;
  float* workspace;
};

enum class Curve { kGelu, kGeluTanh, kSilu, kSquaredRelu };

struct ActivationPass {
  int threads;
  DType type;
  Curve curve;
  bool gated;
  std::int64_t rows, columns;  // columns of s
  const void* u;
  void* s;             // backward: may be null
  const void* grad_s;  // backward
  void* grad_u;        // backward
};

// out = residual + mask(x + bias); residual and bias may be null.
struct ResidualAdd {
  int threads;
  DType type;
  std::int64_t rows, columns;
  const void *x, *bias, *residual;
  Mask mask;
  void* out;
};

struct EmbeddingPass {
  int threads;
  DType type;
  std::int64_t tokens, columns, first_row, table_rows;
  const std::int32_t* ids;
  const void* table;  // forward
  void* out;          // forward
  bool accumulate;    // forward
  const void* grad;   // backward
  float* grad_table;  // backward
};

struct CrossEntropy {
  int threads;
  DType type;
  std::int64_t rows, columns, valid, first_column;
  void* logits;
  const std::int32_t* labels;
  float* statistics;                   // forward
  const float *log_sum_exp, *weights;  // backward
  float factor;                        // backward
};

struct AdamWStep {
  int threads;
  std::int64_t count;
  DType type;
  void* parameter;           // fp32, or bf16 with the rest of the weights' bits:
  std::uint16_t* remainder;  // (null for fp32)
  float *exp_avg, *exp_avg_sq;
  const float* grad;
  float beta1, beta2, epsilon, weight_decay;
  float learning_rate, gradient_scale, bias_correction1, bias_correction2;
};

struct Kernels {
  const char* name;
  void (*fill)(int threads, DType type, std::int64_t count, float value, void* out);
  void (*cast)(int threads, DType from, DType to, std::int64_t count, const void* in, void* out);  // fp32, bf16
  void (*add)(int threads, DType type, std::int64_t count, const void* a, const void* b, void* out);
  void (*scale)(int threads, DType type, std::int64_t count, float factor, void* values);
  // partial: [sum_blocks(rows), columns]
  void (*bias_gradient)(int threads, DType type, std::int64_t rows, std::int64_t columns, const void* grad,
                        float* grad_bias, float* partial);
  void (*norm_forward)(const Norm&);
  void (*norm_backward)(const NormBackward&);
  void (*head_norm_forward)(const HeadNorm&);
  void (*head_norm_backward)(const HeadNorm&);
  void (*rope)(const Rope&);
  std::size_t (*attention_workspace)(const Heads&, int threads, bool backward);  // bytes
  void (*attention_forward)(const Attention&);
  void (*attention_backward)(const Attention&);
  void (*activation_forward)(const ActivationPass&);
  void (*activation_backward)(const ActivationPass&);
  void (*residual_add)(const ResidualAdd&);
  void (*embedding_forward)(const EmbeddingPass&);
  void (*embedding_backward)(const EmbeddingPass&);
  void (*softmax_statistics)(const CrossEntropy&);
  void (*cross_entropy_gradient)(const CrossEntropy&);
  // partial: [squared_norm_blocks(count)]
  double (*squared_norm)(int threads, std::int64_t count, const float* values, double* partial);
  void (*adamw)(const AdamWStep&);
  void (*split_master)(int threads, std::int64_t count, const float* weights, void* parameter,
                       std::uint16_t* remainder);
};

inline constexpr std::int64_t kSquaredNormBlock = 16384;
constexpr std::int64_t squared_norm_blocks(std::int64_t count) {
  return (count + kSquaredNormBlock - 1) / kSquaredNormBlock;
}

// The tables that this processor can run, widest first. RunError on an x86-64 without AVX2 and FMA.
const std::vector<const Kernels*>& usable_kernels();

}  // namespace railyard::cpu
