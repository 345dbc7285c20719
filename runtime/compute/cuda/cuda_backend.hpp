// The CUDA backend: one device, one stream for all operations.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "runtime/comm/load.hpp"
#include "runtime/compute/cuda/attention.hpp"
#include "runtime/compute/cuda/device.hpp"
#include "runtime/compute/cuda/kernels/kernels.hpp"
#include "runtime/compute/cuda/matmul.hpp"

namespace railyard::cuda {

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(const CudaOptions& options);
  CudaBackend(const CudaBackend&) = delete;
  CudaBackend& operator=(const CudaBackend&) = delete;
  ~CudaBackend() override;

  [[nodiscard]] int device() const { return device_; }
  [[nodiscard]] cudaStream_t stream() const { return stream_.get(); }

  [[nodiscard]] const std::string& description() const override { return description_; }
  [[nodiscard]] double peak_flops() const override { return peak_flops_; }

  bool begin_capture() override;
  std::unique_ptr<CapturedGraph> end_capture() override;
  void launch(CapturedGraph& graph) override;
  [[nodiscard]] std::string algorithms() const override { return matmul_.algorithms(); }
  void set_algorithms(const std::string& json) override { matmul_.set_algorithms(json); }

  Buffer allocate(std::size_t bytes) override;
  [[nodiscard]] std::size_t memory_in_use() const override { return *in_use_; }
  [[nodiscard]] std::size_t memory_limit() const override { return memory_limit_; }
  [[nodiscard]] bool is_host_memory() const override { return false; }
  Buffer allocate_staging(std::size_t bytes) override;
  void copy_from_host(std::span<const std::byte> host, const Tensor& device) override;
  void copy_to_host(const Tensor& device, std::span<std::byte> host) override;
  void copy(const Tensor& from, const Tensor& to) override;
  void synchronize() override;

  void zero(const Tensor& out) override;
  void fill(const Tensor& out, float value) override;
  void fill_normal(const Tensor& out, std::uint64_t key, std::int64_t first_row, std::int64_t first_column,
                   std::int64_t logical_columns, float mean, float deviation) override;
  void cast(const Tensor& in, const Tensor& out) override;
  void add(const Tensor& a, const Tensor& b, const Tensor& out) override;
  void scale(const Tensor& tensor, float factor) override;

  void gemm(const Gemm& arguments) override;
  void bias_gradient(const Tensor& grad, const Tensor& grad_bias) override;

  void all_gather_gemm(Group& group, const Tensor& part, const Tensor& gathered, const Gemm& arguments) override;
  void gemm_reduce_scatter(Group& group, const Gemm& arguments, const Tensor& part) override;

  void amax(const Tensor& tensor, const Tensor& maximum) override;
  void scale_from_amax(const Tensor& maximum, DType type, const Tensor& scale) override;
  void scale_from_history(const Tensor& maximum, const Tensor& history, DType type, const Tensor& scale) override;
  void quantize(const Tensor& in, const Tensor& out, const Tensor& transposed, const Tensor& maximum) override;
  void quantize_blocks(Scaling scaling, const Tensor& in, const Tensor& out, const Tensor& transposed) override;
  void transpose(const Tensor& in, const Tensor& out) override;

  void norm_forward(NormKind kind, const Tensor& x, const Tensor& weight, const Tensor& bias, float epsilon,
                    const Tensor& y, const Tensor& mean, const Tensor& rstd) override;
  void norm_backward(NormKind kind, const Tensor& grad_y, const Tensor& x, const Tensor& weight, const Tensor& mean,
                     const Tensor& rstd, const Tensor& addend, const Tensor& grad_x, const Tensor& grad_weight,
                     const Tensor& grad_bias) override;

  void head_norm_forward(const AttentionShape& shape, const Tensor& packed, const Tensor& q_weight,
                         const Tensor& k_weight, float epsilon, const Tensor& raw, const Tensor& rstd) override;
  void head_norm_backward(const AttentionShape& shape, const Tensor& grad_packed, const Tensor& raw,
                          const Tensor& q_weight, const Tensor& k_weight, const Tensor& rstd,
                          const Tensor& grad_q_weight, const Tensor& grad_k_weight) override;
  void rope(const Tensor& packed, const AttentionShape& shape, const Tensor& positions, const Tensor& cosine,
            const Tensor& sine, bool inverse) override;
  [[nodiscard]] std::size_t attention_workspace(const AttentionShape& shape, DType dtype, bool backward) const override;
  void attention_forward(const AttentionShape& shape, const Tensor& packed, const Dropout& dropout,
                         const Tensor& first_keys, const Tensor& out, const Tensor& log_sum_exp,
                         const Tensor& workspace) override;
  void attention_backward(const AttentionShape& shape, const Tensor& packed, const Tensor& out,
                          const Tensor& log_sum_exp, const Tensor& grad_out, const Dropout& dropout,
                          const Tensor& first_keys, const Tensor& grad_packed, const Tensor& workspace) override;

  void activation_forward(Activation kind, const Tensor& u, const Tensor& s) override;
  void activation_backward(Activation kind, const Tensor& u, const Tensor& grad_s, const Tensor& grad_u,
                           const Tensor& s) override;
  void residual_add(const Tensor& x, const Tensor& bias, const Dropout& dropout, const Tensor& residual,
                    const Tensor& out) override;
  void dropout(const Tensor& x, const Dropout& dropout, const Tensor& out) override;

  void embedding_forward(const Tensor& ids, const Tensor& table, std::int64_t first_row, bool accumulate,
                         const Tensor& out) override;
  void embedding_backward(const Tensor& ids, const Tensor& grad_out, std::int64_t first_row,
                          const Tensor& grad_table) override;
  void softmax_statistics(const Tensor& logits, std::int64_t valid, const Tensor& labels, std::int64_t first_column,
                          const Tensor& statistics) override;
  void combine_statistics(const Tensor& parts, const Tensor& weights, const Tensor& log_sum_exp,
                          const Tensor& loss) override;
  void cross_entropy_gradient(const Tensor& logits, std::int64_t valid, const Tensor& labels, std::int64_t first_column,
                              const Tensor& log_sum_exp, const Tensor& weights, float factor) override;

  void squared_norm(const Tensor& tensor, const Tensor& sum) override;
  void clip_scale(const Tensor& sum, float factor, float clip, const OptimizerScalars& scalars) override;
  void adamw(const AdamW& arguments, const OptimizerScalars& scalars) override;
  void split_master(const Tensor& weights, const Tensor& parameter, const Tensor& remainder) override;

 private:
  // A page-locked buffer for small copies from the host, free again when its event has passed.
  struct StagingSlot {
    Buffer memory;
    Event copied;
  };

  [[nodiscard]] Target target() const { return {stream_.get(), processors_}; }
  void make_current() const;
  // Memory for one operation; it grows here and stays, since a captured graph may use what was handed out before.
  void* scratch(std::size_t bytes);
  // cuDNN's attention when it can do this shape; it is opened by the first call. Null: the plain kernel does it.
  FusedAttention* fused_attention(const AttentionShape& shape, DType type, float dropout) const;

  int device_;
  int processors_ = 1;
  bool deterministic_;
  double peak_flops_ = 0.0;
  std::string description_;
  std::size_t memory_total_ = 0, memory_limit_ = 0;
  std::shared_ptr<std::atomic<std::size_t>> in_use_;
  Stream stream_;
  Matmul matmul_;
  mutable std::unique_ptr<FusedAttention> fused_attention_;
  mutable bool fused_attention_opened_ = false;
  std::vector<DeviceMemory> scratch_;
  std::vector<StagingSlot> staging_;
  std::size_t next_slot_ = 0;
  bool capturing_ = false;
};

}  // namespace railyard::cuda
