// The resolved job: what every rank reads from job.json. The Lua front checks and fills every value (lua/schema), so
// the structs here hold no defaults of meaning; reading a document that lacks a key is an error.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/json.hpp"

namespace railyard {

// Long-context frequency scaling of rotary positions (Llama 3.1: type "llama3"; also "linear").
struct RopeScaling {
  std::string type;
  double factor = 1.0;
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  std::int64_t original_max_positions = 8192;
};

// A decoder-only transformer. Sizes are logical: unpadded and of the whole model.
struct ModelSpec {
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;  // d_qk = d_v unless a later attention kind says otherwise
  std::int64_t ffn = 0;
  std::int64_t vocab = 0;  // 0: "auto", filled from the tokenizer before training
  std::int64_t vocab_divisible_by = 128;
  std::int64_t seq_length = 0;
  std::int64_t max_positions = 0;
  std::string norm;  // "layernorm", "rmsnorm", "layernorm1p"
  double norm_eps = 1e-5;
  std::string activation;  // "gelu", "gelu_tanh", "swiglu", "geglu", "squared_relu"
  std::string position;    // "learned", "rope", "none"
  double rope_theta = 10000.0;
  std::optional<RopeScaling> rope_scaling;
  double rotary_percent = 1.0;
  bool bias = false;        // all linear layers and layernorms
  bool qkv_bias = false;    // the QKV projection alone (Qwen2)
  bool qk_norm = false;     // RMSNorm of each head's q and k (Qwen3)
  std::int64_t window = 0;  // sliding attention window in tokens, 0: none
  bool tied_embeddings = false;
  double attention_dropout = 0.0;
  double hidden_dropout = 0.0;
  double init_std = 0.02;
  bool scaled_init = true;  // output projections divided by sqrt(2 layers)

  [[nodiscard]] bool gated() const { return activation == "swiglu" || activation == "geglu"; }
  // layernorm1p (Nemotron) always has one.
  [[nodiscard]] bool norm_has_bias() const { return norm == "layernorm1p" || (norm == "layernorm" && bias); }
  [[nodiscard]] std::int64_t rope_dims() const;  // rotated part of head_dim, even
};

struct DataSource {
  std::string path;  // prefix of .bin/.idx
  std::optional<double> weight;
};

struct TokenizerSpec {
  std::string type;  // "char", "bytes", "gpt2", "huggingface", "sentencepiece", "tiktoken"
  std::string path;
};

struct DataSpec {
  std::vector<DataSource> train, valid, test;
  std::string text;  // a plain text file instead of .bin/.idx
  bool mock = false;
  std::string split;  // "969,30,1"
  std::optional<TokenizerSpec> tokenizer;
  std::string sampling;  // "sequential", "random"
  std::string cache;
  bool reset_position_ids = false;
  bool reset_attention_mask = false;
  bool eod_mask_loss = false;
};

struct ParallelSpec {
  std::int64_t tp = 1, cp = 1, pp = 1, vpp = 1, ep = 1;
  std::int64_t dp = 0;     // 0: "fill"
  std::int64_t etp = 0;    // 0: tp
  bool automatic = false;  // parallel = "auto"
  bool sequence_parallel = false;
  std::string order;     // "tp-cp-ep-dp-pp"
  std::string schedule;  // "1f1b"
  std::string pipeline_layout;
  std::int64_t first_stage_layers = 0, last_stage_layers = 0;  // 0: even split
  std::string cp_comm;
  bool overlap_grad_reduce = true, overlap_param_gather = true, tp_comm_overlap = true;
  std::int64_t bucket_size = 0;  // elements, 0: chosen by the runtime
};

struct OptimizerSpec {
  std::string type;  // "adamw"
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0.1, clip_grad = 1.0;
  bool distributed = false;
};

struct LearningRateSpec {
  std::string schedule;  // "cosine", "linear", "constant", "wsd", "inverse_sqrt"
  double peak = 0.0, min = 0.0, init = 0.0;
  std::int64_t warmup = 0;
  double warmup_fraction = 0.0;
  std::int64_t decay_iterations = 0;
  std::int64_t wsd_decay = 0;
};

struct Fp8Spec {
  std::string recipe;  // "current", "delayed", "block"
  std::int64_t amax_history = 1024;
  std::int64_t first_last_bf16 = 0;  // layers kept in bf16 at each end
};

struct RecomputeSpec {
  std::string granularity;  // "none", "selective", "full"
  std::string method;       // "uniform", "block"
  std::int64_t layers = 0;
  std::vector<std::string> modules;
};

struct TrainSpec {
  std::int64_t iterations = 0;
  std::int64_t micro_batch = 1, global_batch = 1;
  std::vector<std::int64_t> rampup_batch;  // {start, step, samples} or empty
  std::string precision;                   // "fp32", "bf16", "fp16", "fp8"
  Fp8Spec fp8;
  std::uint64_t seed = 1234;
  OptimizerSpec optimizer;
  LearningRateSpec lr;
  RecomputeSpec recompute;
  std::string grad_reduce_dtype;  // "fp32", "bf16"
  double loss_scale = 0.0;        // 0: dynamic where fp16 needs it
  bool deterministic = false;
  std::string on_nan;  // "stop", "skip", "rewind"
  std::vector<std::int64_t> skip_iterations;
  std::int64_t exit_interval = 0;
  double exit_duration = 0.0;  // seconds, 0: none
};

struct InitFromSpec {
  std::string path;
  std::int64_t step = -1;
  bool weights_only = false, reset_optimizer = false, reset_lr = false, reset_data = false;
};

struct CheckpointSpec {
  std::string dir;                                   // relative to the run directory
  std::int64_t every = 0, keep = 0, keep_every = 0;  // 0: only at the end / keep all
  bool async = true;
  std::string resume;  // "auto", "never", "must"
  std::optional<InitFromSpec> init_from;
};

struct RunSpec {
  std::string device;        // "auto", "cpu", "cuda"
  std::string communicator;  // "auto", "mpi", "nccl"
  std::int64_t threads = 0;  // 0: "auto"
  double timeout = 600.0;    // seconds
  std::int64_t max_restarts = 3, spare_nodes = 0;
  bool requeue = true;
  std::map<std::string, std::string> setenv;
};

struct EvalSpec {
  std::int64_t every = 0, batches = 0;
};

struct LogSpec {
  std::int64_t every = 1;
  bool tensorboard = true;
  std::string format;  // "railyard", "megatron"
};

struct ProfileSpec {
  std::int64_t start = -1, stop = -1;
  std::vector<std::int64_t> ranks;
};

struct JobSpec {
  std::string name;
  ModelSpec model;
  DataSpec data;
  ParallelSpec parallel;
  TrainSpec train;
  CheckpointSpec checkpoint;
  RunSpec run;
  EvalSpec eval;
  LogSpec log;
  ProfileSpec profile;

  // Reads a resolved document (the content of job.json). UsageError names the key that is missing or of a wrong type.
  static JobSpec from_json(const Json& document, const std::string& source = "job.json");
  [[nodiscard]] Json to_json() const;
};

}  // namespace railyard
