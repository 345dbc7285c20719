// What a device can do for a layer. One interface, two implementations (compute/cpu, compute/cuda); every operation has
// a float64 reference in tests/runtime/compute and one test body for all backends.
//
// Operations are ordered as they are called (one stream); results are ready for the host after synchronize(). Tensors
// are dense row-major views in the backend's memory. "compute dtype" below is fp32 or bf16 (fp16 later); all tensors of
// an operation have it unless a comment says otherwise; accumulation is in fp32. Token matrices are [n, columns] with
// n = samples x positions, samples outermost. Shapes that do not fit are broken invariants (RAILYARD_CHECK), not user
// errors.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "runtime/comm/group.hpp"
#include "runtime/tensor/tensor.hpp"

namespace railyard {

enum class NormKind { kLayerNorm, kRmsNorm, kLayerNorm1p };  // 1p: the stored weight is (gamma - 1), as in Nemotron
enum class Activation { kGelu, kGeluTanh, kSwiglu, kGeglu, kSquaredRelu };

[[nodiscard]] constexpr bool is_gated(Activation activation) {
  return activation == Activation::kSwiglu || activation == Activation::kGeglu;
}

// Memory of a backend, freed with it. Aligned to 256 bytes.
class Buffer {
 public:
  Buffer() = default;
  Buffer(void* data, std::size_t bytes, std::function<void(void*)> free)
      : memory_(data, std::move(free)), bytes_(bytes) {}
  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(memory_.get()); }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  std::shared_ptr<void> memory_;
  std::size_t bytes_ = 0;
};

// What an 8-bit tensor's scales belong to, and where the fp32 scales of an [r, c] matrix lie (as cuBLASLt reads them):
// the whole tensor: [1]; 128 consecutive elements of a row: [ceil(c / 128), r rounded up to 4]; 128 x 128 elements:
// [ceil(r / 128), ceil(c / 128) rounded up to 4]. Padding is never read.
enum class Scaling : std::uint8_t { kTensor, kRow128, kBlock128 };
[[nodiscard]] Shape scales_shape(Scaling scaling, std::int64_t rows, std::int64_t columns);

// d = op(a) * op(b) (+ bias per column) (+ addend), or d += op(a) * op(b) when `accumulate`.
// op(a) is [m, k], op(b) [k, n], d [m, n]. a and b in compute dtype, or 8-bit with scales (both then); d fp32 or
// compute dtype.
struct Gemm {
  Tensor a;
  bool transpose_a = false;
  Tensor b;
  bool transpose_b = false;
  Tensor d;
  bool accumulate = false;
  Tensor bias;    // [n], optional
  Tensor addend;  // [m, n], optional; may be d itself
  // 8-bit operands only. Their product is that of a row-major and a transposed matrix (transpose_b) on GPUs.
  Scaling a_scaling = Scaling::kTensor, b_scaling = Scaling::kTensor;
  bool fast_accumulation = false;  // of fewer bits: fit for the forward pass
};

// Packed heads of one token: [q_heads * d_qk | kv_heads * d_qk | kv_heads * d_v] columns, this rank's heads only.
struct AttentionShape {
  std::int64_t batch = 0;   // samples
  std::int64_t length = 0;  // positions per sample
  std::int64_t q_heads = 0, kv_heads = 0;
  std::int64_t d_qk = 0, d_v = 0;
  std::int64_t window = 0;  // a query sees at most the last `window` keys, itself included; 0: all before it
  float scale = 1.0F;       // of q . k before the softmax
  [[nodiscard]] std::int64_t packed_columns() const { return (q_heads + kv_heads) * d_qk + kv_heads * d_v; }
  [[nodiscard]] std::int64_t output_columns() const { return q_heads * d_v; }
};

// Aborts unless the tensors of Backend::head_norm_forward and its backward have the shapes and types told there.
void check_head_norm(const AttentionShape& shape, const Tensor& packed, const Tensor& q_weight, const Tensor& k_weight,
                     const Tensor& raw, const Tensor& rstd);

// Dropout by Philox: the element of feature f of token (sample s, position p) is kept when
// uniform_open(philox4x32(s low, s high, p, f / 4; key).x[f % 4]) >= probability, and divided by (1 - probability).
// For attention the element of (head h, query position p, key position j) uses counters (s low, s high, p, j / 4) with
// key mix64(key + h), lane j % 4; h is the head's number in the whole model.
struct Dropout {
  float probability = 0.0F;     // 0: none, the rest unused
  std::uint64_t key = 0;        // of (seed, layer, site)
  Tensor sample_ids;            // [n] int64, of the rows at hand
  Tensor positions;             // [n] int32
  std::int64_t first_head = 0;  // attention only
};

// Scalars of an optimizer step in device memory (fp32), so that a captured graph stays valid when they change.
struct OptimizerScalars {
  enum Index { kLearningRate, kGradientScale, kBiasCorrection1, kBiasCorrection2, kGradientNorm, kFinite, kCount };
  Tensor values;  // [kCount] fp32; kFinite is 1 when every gradient is finite
};

// AdamW (Loshchilov & Hutter, 2019) on one contiguous range. All [n]; exp_avg, exp_avg_sq and grad fp32.
//   g = grad * scalars[kGradientScale]; m = b1 m + (1-b1) g; v = b2 v + (1-b2) g^2;
//   w -= lr * (m / bc1 / (sqrt(v / bc2) + eps) + weight_decay * w)
// The weight w is fp32: `parameter` itself, or, where that is bf16, parameter and remainder (uint16) together, as
// join_master and split_master of dtype.hpp say. Does nothing when scalars[kFinite] is 0.
struct AdamW {
  Tensor parameter, remainder, exp_avg, exp_avg_sq, grad;
  float beta1 = 0.9F, beta2 = 0.95F, epsilon = 1e-8F, weight_decay = 0.0F;
};

// Operations recorded by Backend::begin_capture, to be run again and again with the same tensors.
class CapturedGraph {
 public:
  virtual ~CapturedGraph() = default;
};

class Backend {
 public:
  virtual ~Backend() = default;
  [[nodiscard]] virtual const std::string& description() const = 0;  // "CPU, 2 threads, AVX-512", "NVIDIA H200"

  // Dense bf16 peak in FLOP/s, which MFU is measured against; 0: unknown or meaningless (CPU).
  [[nodiscard]] virtual double peak_flops() const { return 0.0; }

  // ---- recorded work ----
  // Operations between begin_capture and end_capture are recorded instead of run; `launch` runs them with what is then
  // in their tensors, at the cost of one call. Scalar arguments are recorded as they were; copies to and from the host
  // and communication through the host cannot be recorded. Operations should have run once before with the same shapes:
  // choices and workspaces are made then. False: this backend records nothing, call the operations every time.
  virtual bool begin_capture() { return false; }
  virtual std::unique_ptr<CapturedGraph> end_capture() { return nullptr; }
  virtual void launch(CapturedGraph& /*graph*/) {}

  // Choices that were measured (which algorithm multiplies which shape), as JSON, and their adoption: with the same
  // choices, library and device, products have the same bits on all ranks and in every run. "": nothing is chosen.
  // What does not fit the library or the device is ignored, and measured when it is needed.
  [[nodiscard]] virtual std::string algorithms() const { return {}; }
  virtual void set_algorithms(const std::string& /*json*/) {}

  // ---- memory ----
  // Throws RunError with the sizes when there is not enough. Contents are undefined.
  virtual Buffer allocate(std::size_t bytes) = 0;
  [[nodiscard]] virtual std::size_t memory_in_use() const = 0;  // bytes allocated here and not freed
  [[nodiscard]] virtual std::size_t memory_limit() const = 0;   // bytes this device has for us; 0: unknown
  // True when tensors of this backend are ordinary host memory (no staging needed to communicate or save).
  [[nodiscard]] virtual bool is_host_memory() const = 0;
  // Host memory that copies to and from the device fastest (page-locked where that matters).
  virtual Buffer allocate_staging(std::size_t bytes) = 0;
  virtual void copy_from_host(std::span<const std::byte> host,
                              const Tensor& device) = 0;                           // host may be reused on return
  virtual void copy_to_host(const Tensor& device, std::span<std::byte> host) = 0;  // complete on return
  virtual void copy(const Tensor& from, const Tensor& to) = 0;                     // same dtype and elements
  virtual void synchronize() = 0;

  // ---- fill and elementwise; any float dtype ----
  virtual void zero(const Tensor& out) = 0;
  virtual void fill(const Tensor& out, float value) = 0;
  // out [r, c] = mean + deviation * N(0, 1), where element (i, j) is logical element (first_row + i) * logical_columns
  // + first_column + j of the stream `key`: blocks of four by Philox, Box-Muller on (x0, x1) and (x2, x3).
  virtual void fill_normal(const Tensor& out, std::uint64_t key, std::int64_t first_row, std::int64_t first_column,
                           std::int64_t logical_columns, float mean, float deviation) = 0;
  virtual void cast(const Tensor& in, const Tensor& out) = 0;
  virtual void add(const Tensor& a, const Tensor& b, const Tensor& out) = 0;  // out may be a or b
  virtual void scale(const Tensor& tensor, float factor) = 0;

  // ---- matrix products ----
  virtual void gemm(const Gemm& arguments) = 0;
  // grad_bias [c] fp32 += sum over rows of grad [n, c].
  virtual void bias_gradient(const Tensor& grad, const Tensor& grad_bias) = 0;
  // Fused with communication; the default does one after the other. `gathered` [size * n, k] is kept for
  // backward_weight. gathered = all_gather(part [n, k]); gemm.a must be `gathered`.
  virtual void all_gather_gemm(Group& group, const Tensor& part, const Tensor& gathered, const Gemm& arguments);
  // part [m / size, n] = reduce_scatter(gemm into arguments.d [m, n]).
  virtual void gemm_reduce_scatter(Group& group, const Gemm& arguments, const Tensor& part);

  // ---- 8-bit numbers (OCP e4m3 and e5m2): real value = stored value * scale ----
  // maximum [1] fp32 = max(maximum, largest magnitude in tensor [compute dtype]).
  virtual void amax(const Tensor& tensor, const Tensor& maximum) = 0;
  // scale [1] fp32 = maximum / the largest number of `type`; 1 where the maximum is zero or not finite.
  virtual void scale_from_amax(const Tensor& maximum, DType type, const Tensor& scale) = 0;
  // Delayed scaling: shifts `maximum` into history [steps] fp32 (the newest first), zeroes it, and sets the scale from
  // the largest of the history. A maximum that is not finite is of a step that was not applied: the newest stays.
  virtual void scale_from_history(const Tensor& maximum, const Tensor& history, DType type, const Tensor& scale) = 0;
  // Per-tensor scaling with the scale at out.scale: out [r, c] and transposed [c, r] = in / scale, rounded to nearest
  // even and saturated; either may be undefined, the scale is then the other's. `maximum` (optional) becomes
  // max(maximum, largest magnitude of in). r and c are multiples of 16, in is of compute dtype, the others 8-bit.
  virtual void quantize(const Tensor& in, const Tensor& out, const Tensor& transposed, const Tensor& maximum) = 0;
  // The same for kRow128 and kBlock128 with scales that are computed here, and written to out.scale and
  // transposed.scale (of scales_shape); rows of the transposed copy have scales of their own. A transposed copy of
  // 128 x 128 elements has the same bytes, turned: with transposed.scale alone its scales alone are written.
  virtual void quantize_blocks(Scaling scaling, const Tensor& in, const Tensor& out, const Tensor& transposed) = 0;
  // out [c, r] = in [r, c] transposed; 8-bit, r and c multiples of 16.
  virtual void transpose(const Tensor& in, const Tensor& out) = 0;

  // ---- normalisation over the last axis ----
  // y = norm(x) * weight + bias; mean [n] fp32 (layernorm only, else undefined tensor) and rstd [n] fp32 are saved.
  virtual void norm_forward(NormKind kind, const Tensor& x, const Tensor& weight, const Tensor& bias, float epsilon,
                            const Tensor& y, const Tensor& mean, const Tensor& rstd) = 0;
  // grad_x = gradient through the norm (+ addend, optional: the residual's gradient; may be grad_x itself).
  // grad_weight, grad_bias [c] fp32 += their gradients (undefined tensors: not wanted).
  virtual void norm_backward(NormKind kind, const Tensor& grad_y, const Tensor& x, const Tensor& weight,
                             const Tensor& mean, const Tensor& rstd, const Tensor& addend, const Tensor& grad_x,
                             const Tensor& grad_weight, const Tensor& grad_bias) = 0;

  // ---- attention ----
  // RMSNorm of each q and k head of packed [n, packed_columns] in place: head = head / rms(head) * its kind's weight
  // [d_qk]. raw [n, (q_heads + kv_heads) * d_qk] keeps the heads as they were, rstd [n, q_heads + kv_heads] is fp32.
  virtual void head_norm_forward(const AttentionShape& shape, const Tensor& packed, const Tensor& q_weight,
                                 const Tensor& k_weight, float epsilon, const Tensor& raw, const Tensor& rstd) = 0;
  // The q and k heads of grad_packed in place; grad_q_weight, grad_k_weight [d_qk] fp32 += their gradients.
  virtual void head_norm_backward(const AttentionShape& shape, const Tensor& grad_packed, const Tensor& raw,
                                  const Tensor& q_weight, const Tensor& k_weight, const Tensor& rstd,
                                  const Tensor& grad_q_weight, const Tensor& grad_k_weight) = 0;
  // Rotary positions in place on the q and k heads of packed [n, packed_columns]: rotate-half pairs (i, i + dims/2) of
  // the first `dims` = 2 * table columns features. `cosine`, `sine` [max_positions, dims/2] fp32, row =
  // positions[token] (int32). `inverse` rotates back (the backward pass).
  virtual void rope(const Tensor& packed, const AttentionShape& shape, const Tensor& positions, const Tensor& cosine,
                    const Tensor& sine, bool inverse) = 0;
  // Causal attention. out [n, output_columns]; log_sum_exp [batch, q_heads, length] fp32 is saved. Never length^2
  // memory. `workspace` has at least attention_workspace(shape, backward) bytes. first_keys (optional) [batch, length]
  // int32: the first position of its sample that a query sees, never falling along the sample.
  [[nodiscard]] virtual std::size_t attention_workspace(const AttentionShape& shape, DType dtype,
                                                        bool backward) const = 0;
  virtual void attention_forward(const AttentionShape& shape, const Tensor& packed, const Dropout& dropout,
                                 const Tensor& first_keys, const Tensor& out, const Tensor& log_sum_exp,
                                 const Tensor& workspace) = 0;
  virtual void attention_backward(const AttentionShape& shape, const Tensor& packed, const Tensor& out,
                                  const Tensor& log_sum_exp, const Tensor& grad_out, const Dropout& dropout,
                                  const Tensor& first_keys, const Tensor& grad_packed, const Tensor& workspace) = 0;

  // ---- MLP ----
  // Gated kinds: u [n, 2f] = [gate | up], s [n, f] = act(gate) * up. Others: u [n, f], s [n, f] = act(u).
  virtual void activation_forward(Activation kind, const Tensor& u, const Tensor& s) = 0;
  // grad_u from grad_s; s (optional) is computed again for the weight gradient. grad_u may be u, and s grad_s.
  virtual void activation_backward(Activation kind, const Tensor& u, const Tensor& grad_s, const Tensor& grad_u,
                                   const Tensor& s) = 0;

  // ---- residual stream ----
  // out = residual + dropout(x + bias); bias [c] optional. out may be residual or x.
  virtual void residual_add(const Tensor& x, const Tensor& bias, const Dropout& dropout, const Tensor& residual,
                            const Tensor& out) = 0;
  // out = dropout(x); the same call is its own backward. out may be x.
  virtual void dropout(const Tensor& x, const Dropout& dropout, const Tensor& out) = 0;

  // ---- embedding and loss ----
  // out [n, c] (+)= table[ids[i] - first_row]; rows outside [first_row, first_row + table rows) give zero. ids [n]
  // int32.
  virtual void embedding_forward(const Tensor& ids, const Tensor& table, std::int64_t first_row, bool accumulate,
                                 const Tensor& out) = 0;
  // grad_table [rows, c] fp32 += grad_out at those rows; the same bits on every run.
  virtual void embedding_backward(const Tensor& ids, const Tensor& grad_out, std::int64_t first_row,
                                  const Tensor& grad_table) = 0;
  // Per row of logits [n, columns]: statistics [n, 3] fp32 = (max, sum of exp(x - max), logit of the label or 0) over
  // the first `valid` columns (the rest is padding); the label's column is labels[i] - first_column when that is
  // inside.
  virtual void softmax_statistics(const Tensor& logits, std::int64_t valid, const Tensor& labels,
                                  std::int64_t first_column, const Tensor& statistics) = 0;
  // Combines `parts` [ranks, n, 3] into log_sum_exp [n] fp32 and adds sum over i of weights[i] * (log_sum_exp - logit
  // of the label) to loss [1] fp64. weights [n] fp32 (the loss mask).
  virtual void combine_statistics(const Tensor& parts, const Tensor& weights, const Tensor& log_sum_exp,
                                  const Tensor& loss) = 0;
  // logits become their own gradient: (softmax - one-hot) * weights[i] * factor; padding columns become zero.
  virtual void cross_entropy_gradient(const Tensor& logits, std::int64_t valid, const Tensor& labels,
                                      std::int64_t first_column, const Tensor& log_sum_exp, const Tensor& weights,
                                      float factor) = 0;

  // ---- optimizer ----
  // sum [1] fp64 += sum of squares of tensor (fp32), in an order that depends on its length alone.
  virtual void squared_norm(const Tensor& tensor, const Tensor& sum) = 0;
  // From the squared norm of all unscaled gradients: norm = sqrt(sum) * factor into kGradientNorm; kGradientScale =
  // factor * min(1, clip / (norm + 1e-6)) (clip <= 0: factor); kFinite.
  virtual void clip_scale(const Tensor& sum, float factor, float clip, const OptimizerScalars& scalars) = 0;
  virtual void adamw(const AdamW& arguments, const OptimizerScalars& scalars) = 0;
  // parameter (bf16) and remainder (uint16) of fp32 weights; all [n].
  virtual void split_master(const Tensor& weights, const Tensor& parameter, const Tensor& remainder) = 0;
};

struct CpuOptions {
  int threads = 1;
};
// The CPU backend (compute/cpu).
std::unique_ptr<Backend> make_cpu_backend(const CpuOptions& options);

}  // namespace railyard
