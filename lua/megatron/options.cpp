// The table of Megatron's options.
#include "lua/megatron/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace railyard::lua {
namespace {

using Means = MegatronOption::Means;

constexpr std::string_view kAlways = "always so";
constexpr std::string_view kSite = "Slurm and the site file decide";
constexpr std::string_view kRuntime = "the runtime chooses";

constexpr MegatronOption copy(std::string_view name, std::string_view ours) {
  return {name, 1, Means::kCopy, ours, ""};
}
constexpr MegatronOption set(std::string_view name, std::string_view ours) { return {name, 0, Means::kSet, ours, ""}; }
constexpr MegatronOption clear(std::string_view name, std::string_view ours) {
  return {name, 0, Means::kClear, ours, ""};
}
constexpr MegatronOption word(std::string_view name, std::string_view ours) {
  return {name, 1, Means::kWord, ours, ""};
}
constexpr MegatronOption special(std::string_view name, int values, std::string_view ours) {
  return {name, values, Means::kSpecial, ours, ""};
}
constexpr MegatronOption nothing(std::string_view name, int values, std::string_view why) {
  return {name, values, Means::kNothing, "", why};
}
constexpr MegatronOption lacking(std::string_view name, int values, std::string_view why = "") {
  return {name, values, Means::kLacking, "", why};
}

constexpr auto kOptions = std::to_array<MegatronOption>({
    // Parallelism
    copy("tensor-model-parallel-size", "parallel.tp"),
    copy("pipeline-model-parallel-size", "parallel.pp"),
    copy("context-parallel-size", "parallel.cp"),
    copy("expert-model-parallel-size", "parallel.ep"),
    copy("expert-tensor-parallel-size", "parallel.etp"),
    copy("num-virtual-stages-per-pipeline-rank", "parallel.vpp"),
    special("num-layers-per-virtual-pipeline-stage", 1, "parallel.vpp"),
    copy("pipeline-model-parallel-layout", "parallel.pipeline_layout"),
    copy("decoder-first-pipeline-num-layers", "parallel.first_stage_layers"),
    copy("decoder-last-pipeline-num-layers", "parallel.last_stage_layers"),
    word("cp-comm-type", "parallel.cp_comm"),
    set("sequence-parallel", "parallel.sequence_parallel"),
    special("use-tp-pp-dp-mapping", 0, "parallel.order"),
    copy("ddp-bucket-size", "parallel.bucket_size"),
    set("overlap-grad-reduce", "parallel.overlap_grad_reduce"),
    set("overlap-param-gather", "parallel.overlap_param_gather"),
    set("tp-comm-overlap", "parallel.tp_comm_overlap"),
    nothing("distributed-backend", 1, "run.communicator is chosen from the device"),
    nothing("no-overlap-p2p-communication", 0, kRuntime),
    nothing("microbatch-group-size-per-virtual-pipeline-stage", 1, kRuntime),
    nothing("ddp-average-in-collective", 0, kRuntime),
    nothing("ddp-num-buckets", 1, kRuntime),
    nothing("ddp-pad-buckets-for-high-nccl-busbw", 0, kRuntime),
    nothing("overlap-p2p-communication-warmup-flush", 0, kRuntime),
    nothing("high-priority-stream-groups", -1, kRuntime),
    nothing("use-nccl-ub", 0, kRuntime),
    nothing("nccl-communicator-config-path", 1, kSite),
    lacking("use-megatron-fsdp", 0, "parameters are not sharded over dp"),
    lacking("use-torch-fsdp2", 0, "parameters are not sharded over dp"),
    lacking("data-parallel-sharding-strategy", 1, "parameters are not sharded over dp"),
    lacking("num-distributed-optimizer-instances", 1),
    lacking("hierarchical-context-parallel-sizes", -1),
    lacking("account-for-embedding-in-pipeline-split", 0, "give parallel.first_stage_layers"),
    lacking("account-for-loss-in-pipeline-split", 0, "give parallel.last_stage_layers"),
    // The launcher's own options, which stand before the script's name
    nothing("nproc-per-node", 1, kSite),
    nothing("nnodes", 1, kSite),
    nothing("node-rank", 1, kSite),
    nothing("master-addr", 1, kSite),
    nothing("master-port", 1, kSite),
    nothing("rdzv-id", 1, kSite),
    nothing("rdzv-backend", 1, kSite),
    nothing("rdzv-endpoint", 1, kSite),
    // Model
    copy("num-layers", "model.layers"),
    copy("hidden-size", "model.hidden"),
    copy("num-attention-heads", "model.heads"),
    copy("num-query-groups", "model.kv_heads"),
    nothing("group-query-attention", 0, "model.kv_heads says it"),
    copy("kv-channels", "model.head_dim"),
    copy("ffn-hidden-size", "model.ffn"),
    copy("vocab-size", "model.vocab"),
    copy("make-vocab-size-divisible-by", "model.vocab_divisible_by"),
    copy("seq-length", "model.seq_length"),
    copy("max-position-embeddings", "model.max_positions"),
    word("normalization", "model.norm"),
    special("apply-layernorm-1p", 0, "model.norm"),
    copy("norm-epsilon", "model.norm_eps"),
    copy("layernorm-epsilon", "model.norm_eps"),
    special("swiglu", 0, "model.activation"),
    special("squared-relu", 0, "model.activation"),
    lacking("quick-geglu", 0, "its approximation of GELU is not one of model.activation"),
    special("openai-gelu", 0, "model.activation"),
    word("position-embedding-type", "model.position"),
    copy("rotary-base", "model.rope_theta"),
    copy("rotary-percent", "model.rotary_percent"),
    special("use-rope-scaling", 0, "model.rope_scaling"),
    copy("rope-scaling-factor", "model.rope_scaling.factor"),
    special("use-rotary-position-embeddings", 0, "model.position"),
    special("no-position-embedding", 0, "model.position"),
    nothing("no-rope-fusion", 0, kRuntime),
    lacking("rotary-interleaved", 0),
    lacking("rotary-seq-len-interpolation-factor", 1, "see model.rope_scaling"),
    lacking("no-rope-freq", 1),
    clear("disable-bias-linear", "model.bias"),
    set("add-qkv-bias", "model.qkv_bias"),
    set("qk-layernorm", "model.qk_norm"),
    special("window-size", 1, "model.window"),
    lacking("window-attn-skip-freq", 1),
    clear("untie-embeddings-and-output-weights", "model.tied_embeddings"),
    copy("attention-dropout", "model.attention_dropout"),
    copy("hidden-dropout", "model.hidden_dropout"),
    copy("init-method-std", "model.init_std"),
    nothing("attention-softmax-in-fp32", 0, kAlways),
    nothing("apply-query-key-layer-scaling", 0, kRuntime),
    nothing("transformer-impl", 1, kRuntime),
    nothing("use-mcore-models", 0, kAlways),
    nothing("use-flash-attn", 0, kAlways),
    nothing("attention-backend", 1, kRuntime),
    nothing("no-masked-softmax-fusion", 0, kRuntime),
    special("no-bias-gelu-fusion", 0, "model.activation"),
    nothing("no-bias-swiglu-fusion", 0, kRuntime),
    nothing("no-bias-dropout-fusion", 0, kRuntime),
    nothing("no-gradient-accumulation-fusion", 0, kRuntime),
    nothing("cross-entropy-loss-fusion", 0, kAlways),
    nothing("cross-entropy-fusion-impl", 1, kRuntime),
    nothing("no-persist-layer-norm", 0, kRuntime),
    lacking("multi-latent-attention", 0, "multi-head latent attention is not built yet"),
    lacking("mtp-num-layers", 1, "multi-token prediction is not built yet"),
    lacking("num-experts", 1, "mixture of experts is not built yet"),
    lacking("moe-router-topk", 1, "mixture of experts is not built yet"),
    lacking("moe-ffn-hidden-size", 1, "mixture of experts is not built yet"),
    lacking("moe-shared-expert-intermediate-size", 1, "mixture of experts is not built yet"),
    lacking("moe-router-load-balancing-type", -1, "mixture of experts is not built yet"),
    lacking("moe-aux-loss-coeff", -1, "mixture of experts is not built yet"),
    lacking("moe-token-dispatcher-type", 1, "mixture of experts is not built yet"),
    lacking("moe-grouped-gemm", 0, "mixture of experts is not built yet"),
    // Training
    copy("micro-batch-size", "train.micro_batch"),
    copy("global-batch-size", "train.global_batch"),
    special("rampup-batch-size", 3, "train.rampup_batch"),
    copy("train-iters", "train.iterations"),
    copy("train-samples", "train.samples"),
    copy("seed", "train.seed"),
    special("bf16", 0, "train.precision"),
    special("fp16", 0, "train.precision"),
    special("fp8-format", 1, "train.precision"),
    word("fp8-recipe", "train.fp8.recipe"),
    copy("fp8-amax-history-len", "train.fp8.amax_history"),
    copy("num-layers-at-start-in-bf16", "train.fp8.first_last_bf16"),
    nothing("first-last-layers-bf16", 0, "train.fp8.first_last_bf16 says it"),
    nothing("fp8-amax-compute-algo", 1, "the largest value is taken"),
    lacking("fp8-param-gather", 0),
    lacking("fp4-format", 1, "fp4 is not built yet"),
    copy("loss-scale", "train.loss_scale"),
    lacking("initial-loss-scale", 1),
    lacking("min-loss-scale", 1),
    lacking("loss-scale-window", 1),
    lacking("hysteresis", 1),
    special("accumulate-allreduce-grads-in-fp32", 0, "train.grad_reduce_dtype"),
    special("grad-reduce-in-bf16", 0, "train.grad_reduce_dtype"),
    special("optimizer", 1, "train.optimizer.type"),
    set("use-distributed-optimizer", "train.optimizer.distributed"),
    special("adam-beta1", 1, "train.optimizer.betas"),
    special("adam-beta2", 1, "train.optimizer.betas"),
    copy("adam-eps", "train.optimizer.eps"),
    copy("weight-decay", "train.optimizer.weight_decay"),
    copy("clip-grad", "train.optimizer.clip_grad"),
    lacking("start-weight-decay", 1, "weight decay is constant"),
    lacking("end-weight-decay", 1, "weight decay is constant"),
    lacking("weight-decay-incr-style", 1, "weight decay is constant"),
    lacking("decoupled-lr", 1),
    lacking("use-precision-aware-optimizer", 0),
    copy("lr", "train.lr.peak"),
    copy("min-lr", "train.lr.min"),
    copy("lr-warmup-init", "train.lr.init"),
    word("lr-decay-style", "train.lr.schedule"),
    copy("lr-warmup-iters", "train.lr.warmup"),
    copy("lr-warmup-fraction", "train.lr.warmup_fraction"),
    special("lr-warmup-samples", 1, "train.lr.warmup"),
    copy("lr-decay-iters", "train.lr.decay_iterations"),
    special("lr-decay-samples", 1, "train.lr.decay_iterations"),
    copy("lr-wsd-decay-iters", "train.lr.wsd_decay"),
    special("lr-wsd-decay-samples", 1, "train.lr.wsd_decay"),
    lacking("lr-wsd-decay-style", 1),
    special("recompute-activations", 0, "train.recompute.granularity"),
    copy("recompute-granularity", "train.recompute.granularity"),
    copy("recompute-method", "train.recompute.method"),
    copy("recompute-num-layers", "train.recompute.layers"),
    special("recompute-modules", -1, "train.recompute.modules"),
    lacking("cpu-offloading", 0),
    lacking("optimizer-cpu-offload", 0),
    set("deterministic-mode", "train.deterministic"),
    special("iterations-to-skip", -1, "train.skip_iterations"),
    copy("exit-interval", "train.exit_interval"),
    special("exit-duration-in-mins", 1, "train.exit_duration"),
    nothing("exit-signal-handler", 0, kAlways),
    nothing("no-check-for-nan-in-loss-and-grad", 0, "train.on_nan says what happens"),
    nothing("check-for-nan-in-loss-and-grad", 0, kAlways),
    nothing("calculate-per-token-loss", 0, kAlways),
    nothing("manual-gc", 0, kRuntime),
    nothing("manual-gc-interval", 1, kRuntime),
    nothing("cuda-graph-impl", 1, kRuntime),
    nothing("enable-cuda-graph", 0, kRuntime),
    nothing("empty-unused-memory-level", 1, kRuntime),
    special("distributed-timeout-minutes", 1, "run.timeout"),
    // Data
    special("data-path", -1, "data.train"),
    special("train-data-path", -1, "data.train"),
    special("valid-data-path", -1, "data.valid"),
    special("test-data-path", -1, "data.test"),
    special("data-args-path", 1, "data.train"),
    copy("per-split-data-args-path", "data.per_split"),
    set("mock-data", "data.mock"),
    copy("split", "data.split"),
    copy("data-cache-path", "data.cache"),
    special("tokenizer-type", 1, "data.tokenizer.type"),
    copy("tokenizer-model", "data.tokenizer.path"),
    special("vocab-file", 1, "data.tokenizer.path"),
    nothing("merge-file", 1, "it lies beside the vocabulary file"),
    special("dataloader-type", 1, "data.sampling"),
    set("reset-position-ids", "data.reset_position_ids"),
    set("reset-attention-mask", "data.reset_attention_mask"),
    set("eod-mask-loss", "data.eod_mask_loss"),
    nothing("num-workers", 1, kRuntime),
    nothing("no-mmap-bin-files", 0, kRuntime),
    nothing("no-create-attention-mask-in-dataloader", 0, kAlways),
    nothing("num-dataset-builder-threads", 1, kRuntime),
    lacking("fim-data", 0),
    // Checkpoints
    copy("save", "checkpoint.dir"),
    special("load", 1, "checkpoint.resume"),
    copy("save-interval", "checkpoint.every"),
    copy("save-retain-interval", "checkpoint.keep_every"),
    set("async-save", "checkpoint.async"),
    copy("pretrained-checkpoint", "checkpoint.init_from.path"),
    copy("ckpt-step", "checkpoint.init_from.step"),
    special("finetune", 0, "checkpoint.init_from.weights_only"),
    special("no-load-optim", 0, "checkpoint.init_from.reset_optimizer"),
    nothing("no-load-rng", 0, "random numbers follow from the seed and the step"),
    nothing("no-save-rng", 0, "random numbers follow from the seed and the step"),
    nothing("ckpt-format", 1, "there is one format, which any layout reads"),
    nothing("dist-ckpt-format", 1, "there is one format, which any layout reads"),
    nothing("use-dist-ckpt", 0, "there is one format, which any layout reads"),
    nothing("ckpt-fully-parallel-save", 0, kAlways),
    nothing("ckpt-fully-parallel-load", 0, kAlways),
    nothing("ckpt-assume-constant-structure", 0, kAlways),
    nothing("auto-detect-ckpt-format", 0, kAlways),
    nothing("dist-ckpt-strictness", 1, kAlways),
    nothing("override-opt_param-scheduler", 0, "the job file counts"),
    nothing("use-checkpoint-args", 0, "the job file counts"),
    // Evaluation, logging, profiling
    copy("eval-interval", "eval.every"),
    copy("eval-iters", "eval.batches"),
    copy("log-interval", "log.every"),
    special("tensorboard-dir", 1, "log.tensorboard"),
    nothing("tensorboard-log-interval", 1, "log.every says it"),
    nothing("tensorboard-queue-size", 1, kRuntime),
    nothing("log-throughput", 0, kAlways),
    nothing("log-progress", 0, kAlways),
    nothing("log-params-norm", 0, kRuntime),
    nothing("log-num-zeros-in-grad", 0, kRuntime),
    nothing("log-memory-to-tensorboard", 0, kAlways),
    nothing("log-timers-to-tensorboard", 0, kAlways),
    nothing("log-validation-ppl-to-tensorboard", 0, kAlways),
    nothing("log-batch-size-to-tensorboard", 0, kAlways),
    nothing("log-world-size-to-tensorboard", 0, kAlways),
    nothing("timing-log-level", 1, kRuntime),
    nothing("timing-log-option", 1, kRuntime),
    lacking("wandb-project", 1, "metrics.jsonl and TensorBoard events are written"),
    lacking("wandb-exp-name", 1, "metrics.jsonl and TensorBoard events are written"),
    lacking("wandb-save-dir", 1, "metrics.jsonl and TensorBoard events are written"),
    nothing("profile", 0, "profile.start and profile.stop say it"),
    copy("profile-step-start", "profile.start"),
    copy("profile-step-end", "profile.stop"),
    special("profile-ranks", -1, "profile.ranks"),
});

struct Word {
  std::string_view option, value, ours;
};

constexpr auto kWords = std::to_array<Word>({
    {"normalization", "LayerNorm", "layernorm"},
    {"normalization", "RMSNorm", "rmsnorm"},
    {"position-embedding-type", "learned_absolute", "learned"},
    {"position-embedding-type", "rope", "rope"},
    {"position-embedding-type", "none", "none"},
    {"cp-comm-type", "p2p", "p2p"},
    {"cp-comm-type", "all_gather", "all_gather"},
    {"cp-comm-type", "allgather", "all_gather"},
    {"cp-comm-type", "a2a", "a2a"},
    {"cp-comm-type", "a2a+p2p", "a2a+p2p"},
    {"fp8-recipe", "delayed", "delayed"},
    {"fp8-recipe", "tensorwise", "current"},
    {"fp8-recipe", "blockwise", "block"},
    {"lr-decay-style", "constant", "constant"},
    {"lr-decay-style", "linear", "linear"},
    {"lr-decay-style", "cosine", "cosine"},
    {"lr-decay-style", "inverse-square-root", "inverse_sqrt"},
    {"lr-decay-style", "WSD", "wsd"},
});

}  // namespace

std::span<const MegatronOption> megatron_options() { return kOptions; }

const MegatronOption* find_megatron_option(std::string_view name) {
  std::string dashed(name);
  std::replace(dashed.begin(), dashed.end(), '_', '-');
  const auto same = [&](std::string_view other) {
    return std::equal(other.begin(), other.end(), dashed.begin(), dashed.end(),
                      [](char a, char b) { return (a == '_' ? '-' : a) == b; });
  };
  const auto found =
      std::find_if(kOptions.begin(), kOptions.end(), [&](const MegatronOption& option) { return same(option.name); });
  return found == kOptions.end() ? nullptr : &*found;
}

std::optional<std::string> megatron_answer(const std::string& key) {
  const MegatronOption* option = find_megatron_option(key);
  if (option == nullptr) return std::nullopt;
  if (!option->ours.empty()) return fmt::format("Megatron's --{} is {} here", option->name, option->ours);
  if (option->note.empty()) return fmt::format("Megatron's --{} has no counterpart here", option->name);
  return fmt::format("Megatron's --{} has no counterpart here: {}", option->name, option->note);
}

std::optional<std::string_view> megatron_word(std::string_view option, std::string_view value) {
  const auto found = std::find_if(kWords.begin(), kWords.end(),
                                  [&](const Word& row) { return row.option == option && row.value == value; });
  return found == kWords.end() ? std::nullopt : std::optional(found->ours);
}

}  // namespace railyard::lua
