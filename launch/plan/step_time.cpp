// The time model.
#include "launch/plan/step_time.hpp"

#include <algorithm>
#include <cmath>

#include "runtime/model/rank_model.hpp"
#include "runtime/parallel/schedule.hpp"
#include "runtime/train/trainer.hpp"

namespace railyard::launch {
namespace {

// What collectives take from kernels that run beside them: they use processors and memory bandwidth.
constexpr double kNvlinkDrag = 0.15, kNetworkDrag = 0.02;
// Bytes that AdamW moves for one parameter: gradient, and master weight and two moments read and written; the weight
// itself and the gradient's norm and clearing come on top.
constexpr double kAdamBytes = 4 + 3 * 8, kNormBytes = 4, kClearBytes = 4;
constexpr double kBucketElements = 40.0 * (1 << 20);  // the runtime's default

// One matrix product of a layer: y [tokens, rows] = x [tokens, columns] W^T.
struct Product {
  double rows, columns;
};

std::vector<Product> products_of(const Layer& layer) {
  std::vector<Product> products;
  for (const ParameterSpec& spec : layer.inventory().parameters)
    if (spec.columns > 1) products.push_back({static_cast<double>(spec.rows), static_cast<double>(spec.columns)});
  return products;
}

void add_products(LayerTimes& times, const std::vector<Product>& products, double tokens, const char* dtype,
                  const DeviceRates& rates) {
  for (const Product& p : products) {
    times.forward += rates.gemm_seconds(dtype, tokens, p.rows, p.columns);
    times.backward_input += rates.gemm_seconds(dtype, tokens, p.columns, p.rows);
    times.backward_weight += rates.gemm_seconds(dtype, p.rows, p.columns, tokens);
  }
}

LayerTimes block_times(const JobSpec& job, const ModelShape& shape, const Layer& block, bool eight_bit,
                       const DeviceRates& rates) {
  const ModelSpec& m = shape.spec;
  const auto width = static_cast<double>(dtype_size(shape.dtype));
  const auto tokens = static_cast<double>(shape.tokens()), local = static_cast<double>(shape.local_tokens());
  const auto hidden = static_cast<double>(m.hidden), inner = static_cast<double>(m.ffn) / shape.tp;
  const AttentionShape attention = shape.attention();
  const auto packed = static_cast<double>(attention.packed_columns()),
             out = static_cast<double>(attention.output_columns());
  const double up = m.gated() ? 2 * inner : inner;
  const bool full = shape.dtype == DType::kFloat32;
  LayerTimes times;
  add_products(times, products_of(block), tokens, eight_bit ? "fp8" : full ? "fp32" : "bf16", rates);

  const char* wide = full ? "fp32" : "bf16";
  const double flops = block.inventory().attention_flops;
  times.forward += rates.attention_seconds(wide, m.seq_length, attention.q_heads, m.head_dim, flops, false);
  times.backward_input += rates.attention_seconds(wide, m.seq_length, attention.q_heads, m.head_dim, flops, true);

  // Elements read and written by everything else: two norms, two residual sums (one operand of each is read by the
  // product itself where nothing stands between), rotation and norms of q and k, the activation.
  const bool fused = shape.tp == 1 && !m.bias && m.hidden_dropout == 0.0;
  const double q_and_k = tokens * (packed - static_cast<double>(attention.kv_heads * attention.d_v));
  const double rotated = m.position == "rope" ? 2 * q_and_k : 0, normed_heads = m.qk_norm ? 2 * q_and_k : 0;
  double forward =
      2 * (2 * local * hidden) + 2 * (fused ? 1 : 3) * local * hidden + rotated + normed_heads + tokens * (up + inner);
  double backward = 2 * (4 * local * hidden) + rotated + 1.5 * normed_heads + tokens * (2 * up + 2 * inner);
  if (m.hidden_dropout > 0.0) backward += 2 * (2 * local * hidden);
  int forward_kernels = 9, backward_kernels = 14;
  if (eight_bit) {
    // Operands are read wide and written in 8 bits as they are and transposed: as many bytes again.
    forward += 2 * tokens * (2 * hidden + out + inner);
    backward += 2 * tokens * (2 * hidden + packed + up);
    forward_kernels += 8;
    backward_kernels += 8;
  }
  times.forward += rates.memory_seconds(forward * width) + forward_kernels * rates.kernel_gap();
  times.backward_input += rates.memory_seconds(backward * width) + backward_kernels * rates.kernel_gap();

  if (job.train.recompute.granularity == "full") times.backward_input += times.forward;
  if (job.train.recompute.granularity == "selective")
    times.backward_input += rates.attention_seconds(wide, m.seq_length, attention.q_heads, m.head_dim, flops, false);
  return times;
}

LayerTimes head_times(const ModelShape& shape, const DeviceRates& rates) {
  const auto width = static_cast<double>(dtype_size(shape.dtype));
  const auto tokens = static_cast<double>(shape.tokens()), local = static_cast<double>(shape.local_tokens());
  const auto hidden = static_cast<double>(shape.spec.hidden), rows = static_cast<double>(shape.vocab_rows());
  LayerTimes products;
  add_products(products, {{rows, hidden}}, tokens, shape.dtype == DType::kFloat32 ? "fp32" : "bf16", rates);
  LayerTimes times;
  // Statistics read the logits, their gradient reads and writes them.
  times.forward = products.forward + products.backward() +
                  rates.memory_seconds((3 * tokens * rows + 2 * local * hidden) * width) + 12 * rates.kernel_gap();
  times.backward_input = rates.memory_seconds(4 * local * hidden * width) + rates.kernel_gap();
  return times;
}

LayerTimes embedding_times(const ModelShape& shape, const DeviceRates& rates) {
  const auto width = static_cast<double>(dtype_size(shape.dtype));
  const double elements = static_cast<double>(shape.tokens() * shape.spec.hidden);
  LayerTimes times;
  times.forward = rates.memory_seconds(2 * elements * width) + rates.kernel_gap();
  times.backward_weight = rates.memory_seconds(elements * (width + 8)) + rates.kernel_gap();
  return times;
}

// What stays visible of communication that runs in parts beside a computation: what exceeds it, and the part that has
// nothing beside it; plus what it costs the computation.
double visible(double communication, double beside, double parts, double drag) {
  const double exposed = std::min(communication, std::max(communication - beside, communication / parts));
  return exposed + drag * (communication - exposed);
}

// Tensor parallel communication of one block.
struct TensorTimes {
  double forward = 0, backward = 0;
};

TensorTimes tensor_times(const JobSpec& job, const ModelShape& shape, const LayerTimes& block, const AxisPath& path) {
  TensorTimes times;
  if (shape.tp == 1) return times;
  const TensorBytes bytes = tensor_bytes(shape);
  const double drag = path.nvlink ? kNvlinkDrag : kNetworkDrag;
  const double forward = collective_seconds(path, bytes.block_forward, bytes.calls_forward);
  const double backward = collective_seconds(path, bytes.block_backward, bytes.calls_backward);
  const bool overlaps = shape.sequence_parallel && job.parallel.tp_comm_overlap;
  // With sequence parallelism gathers and scatters go rank by rank beside the product's parts; an all-reduce waits for
  // the whole product. In the backward pass the sum of the input's gradient runs under the weight's product, the second
  // gather under the input's; gathering the output's gradient waits.
  times.forward = overlaps ? visible(forward, 0.8 * block.forward, shape.tp, drag) : forward;
  const double hidden = shape.sequence_parallel ? backward * 4 / 6 : backward;
  times.backward = backward - hidden + visible(hidden, 0.8 * block.backward(), 4, drag);
  if (job.train.recompute.granularity == "full") times.backward += times.forward;
  return times;
}

struct Stage {
  double forward = 0, backward = 0;  // computing, one microbatch through all its pieces
  double tensor = 0;                 // visible tensor parallel communication of one microbatch
  double busy() const { return forward + backward + tensor; }
};

// No stage starts before the first microbatch has come to it, nor ends before the last has gone back.
double least_seconds(const std::vector<Stage>& stages, double microbatches, const std::vector<double>& forward,
                     const std::vector<double>& backward, double transfer) {
  double least = 0, way = 0;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    least = std::max(least, way + stages[s].busy() * microbatches);
    way += forward[s] + backward[s] + 2 * transfer;
  }
  return least;
}

}  // namespace

ModelTimes model_times(const JobSpec& job, const ModelParts& parts, const DeviceRates& rates) {
  ModelTimes times;
  const bool eight_bit = job.train.precision == "fp8";
  times.block = block_times(job, parts.shape, *parts.block, eight_bit, rates);
  if (parts.wide_block) times.wide_block = block_times(job, parts.shape, *parts.wide_block, false, rates);
  times.embedding = embedding_times(parts.shape, rates);
  times.head = head_times(parts.shape, rates);
  return times;
}

double schedule_seconds(const Layout& layout, std::int64_t microbatches, const std::vector<double>& forward,
                        const std::vector<double>& backward, double transfer) {
  if (layout.pp == 1) {
    double sum = 0;
    for (std::size_t v = 0; v < forward.size(); ++v) sum += forward[v] + backward[v];
    return sum * static_cast<double>(microbatches);
  }
  const auto length = [&](std::int64_t count) {
    return simulate_schedule(schedule_interleaved(layout.pp, layout.vpp, static_cast<int>(count)), forward, backward,
                             transfer)
        .length;
  };
  const std::int64_t period = layout.pp, shorter = 2 * period + microbatches % period, longer = shorter + period;
  if (microbatches <= longer) return length(microbatches);
  const double first = length(shorter), second = length(longer);
  return second + (second - first) * static_cast<double>((microbatches - longer) / period);
}

StepTime step_time(const JobSpec& job, const Layout& layout, const ModelParts& parts, const ModelTimes& times,
                   const AxisPaths& paths, const DeviceRates& rates, PipelineTime kind) {
  const ModelShape& shape = parts.shape;
  const auto width = static_cast<double>(dtype_size(shape.dtype));
  const auto blocks = blocks_by_piece(job, layout);
  const std::int64_t microbatches = microbatches_of(job, layout);
  const TensorTimes tensor = tensor_times(job, shape, times.block, paths.tp);
  const TensorBytes ends = tensor_bytes(shape);

  std::vector<double> forward, backward;
  std::vector<Stage> stages(static_cast<std::size_t>(layout.pp));
  std::int64_t layer = 0;
  for (std::size_t piece = 0; piece < blocks.size(); ++piece) {
    Stage mine;
    for (std::int64_t i = 0; i < blocks[piece]; ++i, ++layer) {
      const LayerTimes& block = parts.is_wide(layer) ? times.wide_block : times.block;
      mine.forward += block.forward;
      mine.backward += block.backward();
    }
    const auto count = static_cast<double>(blocks[piece]);
    double tensor_forward = count * tensor.forward, tensor_backward = count * tensor.backward;
    if (piece == 0) {
      mine.forward += times.embedding.forward;
      mine.backward += times.embedding.backward();
      tensor_forward += collective_seconds(paths.tp, ends.embedding, 2);
    }
    if (piece + 1 == blocks.size()) {
      mine.forward += times.head.forward;
      mine.backward += times.head.backward();
      tensor_forward += collective_seconds(paths.tp, ends.head, 2);
    }
    forward.push_back(mine.forward + tensor_forward);
    backward.push_back(mine.backward + tensor_backward);
    Stage& stage = stages[piece % static_cast<std::size_t>(layout.pp)];
    stage.forward += mine.forward;
    stage.backward += mine.backward;
    stage.tensor += tensor_forward + tensor_backward;
  }
  const double message = static_cast<double>(shape.local_tokens() * shape.spec.hidden) * width;
  const double transfer = message_seconds(paths.pp, message);
  const double pipeline = kind == PipelineTime::kSchedule
                              ? schedule_seconds(layout, microbatches, forward, backward, transfer)
                              : least_seconds(stages, static_cast<double>(microbatches), forward, backward, transfer);

  StepTime result;
  for (std::size_t s = 1; s < stages.size(); ++s)
    if (stages[s].busy() > stages[static_cast<std::size_t>(result.busiest_stage)].busy())
      result.busiest_stage = static_cast<int>(s);
  const Stage& busiest = stages[static_cast<std::size_t>(result.busiest_stage)];

  // Data parallelism and the optimizer, on the stage with the most parameters.
  double elements = 0;
  for (int stage = 0; stage < layout.pp; ++stage)
    elements = std::max(elements, stage_parameters(job, layout, parts, stage));
  const int replicas = layout.dp * layout.cp;
  const bool sharded = job.train.optimizer.distributed && replicas > 1;
  const double share = static_cast<double>(replicas - 1) / replicas;
  const int buckets = static_cast<int>(std::ceil(
      elements / (job.parallel.bucket_size > 0 ? static_cast<double>(job.parallel.bucket_size) : kBucketElements)));
  const double drag = paths.dp.nvlink && paths.dp.inside == paths.dp.ranks ? kNvlinkDrag : kNetworkDrag;
  const double reduce = collective_seconds(paths.dp, elements * share * (sharded ? 4.0 : 8.0), buckets);
  const double gather = sharded ? collective_seconds(paths.dp, elements * share * width, buckets) : 0;
  result.data_s = job.parallel.overlap_grad_reduce ? visible(reduce, busiest.backward, buckets, drag) : reduce;
  result.data_s += job.parallel.overlap_param_gather ? visible(gather, busiest.forward, buckets, drag) : gather;
  if (job.model.tied_embeddings && layout.pp > 1) {
    AxisPath pair = paths.pp;
    pair.ranks = 2;
    pair.inside = pair.inside >= layout.pp ? 2 : 1;
    result.data_s += collective_seconds(pair, static_cast<double>(shape.vocab_rows() * shape.spec.hidden) * 4, 2);
  }
  const double owned = sharded ? elements / replicas : elements;
  result.optimizer_s = rates.memory_seconds(owned * (kAdamBytes + kNormBytes + width) + elements * kClearBytes);
  if (job.train.precision == "fp8") result.optimizer_s += rates.memory_seconds(elements * 4);  // weights cast anew

  const auto count = static_cast<double>(microbatches);
  result.tensor_s = busiest.tensor * count;
  result.compute_s = (busiest.forward + busiest.backward) * count + result.optimizer_s;
  result.exposed_comm_s = result.tensor_s + result.data_s;
  result.bubble_s = layout.pp == 1 ? 0.0 : std::max(0.0, pipeline - busiest.busy() * count);
  result.step_s = result.compute_s + result.exposed_comm_s + result.bubble_s;
  const double flops = training_flops(job.model, job.train.global_batch) / result.step_s / layout.ranks();
  result.tflops_per_gpu = flops * 1e-12;
  if (rates.peak_flops() > 0) result.mfu = flops / rates.peak_flops();
  return result;
}

}  // namespace railyard::launch
