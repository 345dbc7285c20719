// A layer: what it needs, and its three steps. It sees tensors, a backend and groups; which device or library is behind
// them is not its business.
//
// Everything a layer will hold is stated from shapes alone (LayerInventory): the runtime allocates from that statement,
// the planner predicts from it and MFU is computed from it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/job.hpp"
#include "runtime/comm/group.hpp"
#include "runtime/compute/backend.hpp"
#include "runtime/model/parameter.hpp"

namespace railyard {

// Where the scales of 8-bit operands come from; block_linear.hpp tells.
enum class Fp8Recipe : std::uint8_t { kCurrent, kDelayed, kBlock };

// Sizes that all layers of a rank share.
struct ModelShape {
  ModelSpec spec;                 // vocab known
  DType dtype = DType::kFloat32;  // compute dtype
  std::int64_t micro_batch = 1;   // samples of a microbatch
  int tp = 1, tp_rank = 0;
  bool sequence_parallel = false;
  bool documents_apart = false;      // a document does not see those before it in its sample
  std::optional<Fp8Recipe> fp8;      // linear layers of blocks multiply in 8-bit numbers
  std::int64_t amax_history = 1024;  // steps that delayed scaling looks back
  std::int64_t first_last_wide = 0;  // so many blocks at each end stay in compute dtype
  std::int64_t padded_vocab = 0;     // multiple of vocab_divisible_by x tp
  std::uint64_t seed = 0;            // of initial weights and dropout
  std::size_t attention_workspace_forward = 0, attention_workspace_backward = 0;  // bytes, from the backend

  [[nodiscard]] std::int64_t tokens() const { return micro_batch * spec.seq_length; }
  // Rows of the residual stream on this rank.
  [[nodiscard]] std::int64_t local_tokens() const { return sequence_parallel ? tokens() / tp : tokens(); }
  [[nodiscard]] std::int64_t first_local_token() const { return sequence_parallel ? tp_rank * local_tokens() : 0; }
  // Attention of this rank's heads over whole samples.
  [[nodiscard]] AttentionShape attention() const;
  [[nodiscard]] std::int64_t vocab_rows() const { return padded_vocab / tp; }
  [[nodiscard]] std::int64_t first_vocab_row() const { return tp_rank * vocab_rows(); }
  // Rows of this rank that hold real tokens of the vocabulary.
  [[nodiscard]] std::int64_t valid_vocab_rows() const;

  // Checks that the model can be split this way. UsageError names the keys.
  static ModelShape make(const ModelSpec& spec, DType dtype, std::int64_t micro_batch, int tp, int tp_rank,
                         bool sequence_parallel);
};

// When a saved or temporary tensor is needed.
enum class Lifetime {
  kSaved,           // from forward to the end of backward_input
  kSavedForWeight,  // from forward to the end of backward_weight
  kForward,         // within forward
  kLayer,           // for the whole run, one for each layer
  kState,           // the same, zero at first, fp32, equal on all ranks that hold the layer, saved in checkpoints
  kBackward,        // from backward_input to the end of backward_weight
};

struct BufferSpec {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;
  Lifetime lifetime = Lifetime::kForward;
  // Temporaries of a pass (kForward, kBackward) of different phases 1, 2, ... are never needed at once, and share their
  // room; those of phase 0 are kept throughout the pass.
  int phase = 0;
  [[nodiscard]] std::size_t bytes() const { return static_cast<std::size_t>(shape.elements()) * dtype_size(dtype); }
};

struct LayerInventory {
  std::vector<ParameterSpec> parameters;
  std::vector<BufferSpec> buffers;  // a layer indexes its buffers by position in this list
  double matmul_flops = 0.0;        // of one forward of one microbatch on this rank: products with parameters
  double attention_flops = 0.0;     // the same, score and value products, causal counted at half
};

// The tensors of one microbatch, in device memory, at fixed addresses per slot.
struct Microbatch {
  Tensor ids;         // [tokens] int32
  Tensor labels;      // [tokens] int32
  Tensor weights;     // [tokens] fp32, the loss mask
  Tensor positions;   // [tokens] int32
  Tensor sample_ids;  // [tokens] int64, the sample's number in the run's order
  Tensor first_keys;  // [tokens] int32, the first position of its sample that a token sees; undefined: 0 for all
};

// Which part of the backward pass to run. Both at once lets a layer put weight gradients under communication.
enum class BackwardPart { kBoth, kInput, kWeight };

struct StepContext {
  Backend& backend;
  Group& tp;
  Group& same_layers;  // all ranks that hold the same layers
  const Microbatch& microbatch;
  Tensor rope_cosine, rope_sine;  // [max_positions, rope_dims / 2] fp32; undefined without rotary positions
  Tensor loss;                    // [1] fp64, adds the weighted sum of token losses
  float gradient_factor = 1.0F;   // of the loss sum, for backward
  bool weights_changed = true;    // since the last forward of this layer: the step's first microbatch
  bool scales_known = true;       // false: no step has left scales behind (delayed scaling)
  bool training = true;           // false: no dropout, and the head computes the loss alone
};

// Tensors for a layer's buffers, by position in its inventory. Saved ones belong to a slot (one per microbatch in
// flight), others are shared by all layers of the rank.
using LayerBuffers = std::vector<Tensor>;

// `input` and `output` are rows of the residual stream [local_tokens, hidden] in compute dtype; the first layer has no
// input, the output head no output (undefined tensors).
class Layer {
 public:
  virtual ~Layer() = default;
  [[nodiscard]] virtual const std::string& name() const = 0;
  [[nodiscard]] virtual const LayerInventory& inventory() const = 0;
  // Parameters in the order of the inventory; called once before the first step. A tied head's weight is bound to the
  // embedding's parameter when both are on this rank.
  virtual void bind(std::vector<Parameter*> parameters) = 0;

  virtual void forward(const StepContext& context, const Tensor& input, const Tensor& output,
                       const LayerBuffers& buffers) = 0;
  // `grad_input` may not be `grad_output`. Gradients of parameters are added.
  virtual void backward(const StepContext& context, const Tensor& input, const Tensor& grad_output,
                        const Tensor& grad_input, const LayerBuffers& buffers, BackwardPart part) = 0;
  // After the last backward pass of a training step, before its update: what one step leaves to the next.
  virtual void finish_step(const StepContext& /*context*/, const LayerBuffers& /*buffers*/) {}
  // The output head alone: logits [rows, padded vocabulary] of a few rows of its input, on a rank that is not split
  // over tp.
  virtual Tensor predict(const StepContext& context, const Tensor& input, const LayerBuffers& buffers);
};

[[nodiscard]] NormKind norm_kind(const std::string& name);
[[nodiscard]] Activation activation_kind(const std::string& name);

}  // namespace railyard
