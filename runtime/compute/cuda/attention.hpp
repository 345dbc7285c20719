// Causal attention by cuDNN's fused kernels. Every shape gets a graph of its own, built when it first occurs.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <optional>

#include "runtime/compute/backend.hpp"

namespace railyard::cuda {

class FusedAttention {
 public:
  virtual ~FusedAttention() = default;
  // Bytes of workspace; nothing when cuDNN cannot do this shape (the plain kernel can).
  virtual std::optional<std::size_t> workspace(const AttentionShape& shape, DType type, bool backward) = 0;
  // Only for shapes that have a workspace.
  virtual void forward(const AttentionShape& shape, const Tensor& packed, const Tensor& out, const Tensor& log_sum_exp,
                       const Tensor& workspace, cudaStream_t stream) = 0;
  virtual void backward(const AttentionShape& shape, const Tensor& packed, const Tensor& out, const Tensor& log_sum_exp,
                        const Tensor& grad_out, const Tensor& grad_packed, const Tensor& workspace,
                        cudaStream_t stream) = 0;
};

// Null where cuDNN 9 is not installed, or the part was built without its headers. `largest_workspace` bounds what a
// deterministic backward pass may take: cuDNN's needs memory with the square of the length on some GPUs.
std::unique_ptr<FusedAttention> open_fused_attention(bool deterministic, std::size_t largest_workspace);

}  // namespace railyard::cuda
