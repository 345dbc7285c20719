// Every key of a job file. To announce a feature as built, take its not_built() away or move its word from the second
// list of one_of() to the first.
#include "lua/schema/job_schema.hpp"

#include "lua/megatron/options.hpp"

namespace railyard::lua {
namespace {

constexpr double kLargestDegree = 1 << 16;
constexpr double kLargestSize = 1 << 24;  // widths, lengths
constexpr double kLargestCount = 1e15;    // steps, samples
constexpr double kLargestBatch = 1 << 24;

const Json& model(const Json& job, const char* key) { return job.at("model").at(key); }

// The feed-forward width that Megatron takes when none is given: 4 hidden, or 8/3 of it in steps of 64 when gated.
Json usual_ffn(const Json& job) {
  const auto hidden = model(job, "hidden").get<std::int64_t>();
  const auto activation = model(job, "activation").get<std::string>();
  const bool gated = activation == "swiglu" || activation == "geglu";
  return gated ? (4 * hidden * 2 / 3) / 64 * 64 : 4 * hidden;
}

Json iterations_of_samples(const Json& job) {
  const auto samples = job.at("train").at("samples").get<std::int64_t>();
  return samples > 0 ? Json(samples / job.at("train").at("global_batch").get<std::int64_t>()) : Json(nullptr);
}

Json usual_split(const Json& job) {
  const Json& data = job.at("data");
  return data.at("valid").empty() && data.at("test").empty() ? "969,30,1" : "";
}

std::vector<Key> model_keys() {
  return {
      table("model", "the model; models.transformer or a preset makes it"),
      integer("model.layers", "number of layers").required().range(1, 1e5),
      integer("model.hidden", "width of the residual stream").required().range(1, kLargestSize),
      integer("model.heads", "attention heads").required().range(1, kLargestSize),
      integer("model.kv_heads", "key and value heads (fewer than heads: grouped queries)")
          .range(1, kLargestSize)
          .derive("heads", [](const Json& job) { return model(job, "heads"); }),
      integer("model.head_dim", "width of a head")
          .range(1, kLargestSize)
          .derive("hidden / heads",
                  [](const Json& job) {
                    return Json(model(job, "hidden").get<std::int64_t>() / model(job, "heads").get<std::int64_t>());
                  }),
      integer("model.ffn", "width of the feed-forward part")
          .range(1, kLargestSize)
          .derive("4 hidden, or 8/3 hidden when gated", usual_ffn),
      integer("model.vocab", "tokens of the vocabulary").range(1, 1 << 28).word("auto", 0).value(0),
      integer("model.vocab_divisible_by", "the vocabulary is padded to a multiple of this times tp")
          .value(128)
          .range(1, 1 << 20),
      integer("model.seq_length", "tokens of a sample").required().range(1, kLargestSize),
      integer("model.max_positions", "longest sequence the model has positions for")
          .range(1, kLargestSize)
          .derive("seq_length", [](const Json& job) { return model(job, "seq_length"); }),
      text("model.norm", "normalization").value("layernorm").one_of({"layernorm", "rmsnorm", "layernorm1p"}),
      number("model.norm_eps", "added to the variance").value(1e-5).above(0).below_or_at(1),
      text("model.activation", "activation of the feed-forward part")
          .value("gelu")
          .one_of({"gelu", "gelu_tanh", "swiglu", "geglu", "squared_relu"}),
      text("model.position", "positions").value("learned").one_of({"learned", "rope", "none"}),
      number("model.rope_theta", "base of rotary positions").value(10000.0).above(0).below_or_at(1e12),
      optional_table("model.rope_scaling", "scaling of rotary positions for long contexts").text_for("type"),
      text("model.rope_scaling.type", "kind of scaling").required().one_of({"llama3", "linear"}),
      number("model.rope_scaling.factor", "stretching factor").value(1.0).above(0).below_or_at(1e6),
      number("model.rope_scaling.low_freq_factor", "see Llama 3.1").value(1.0).above(0).below_or_at(1e6),
      number("model.rope_scaling.high_freq_factor", "see Llama 3.1").value(4.0).above(0).below_or_at(1e6),
      integer("model.rope_scaling.original_max_positions", "length before stretching")
          .value(8192)
          .range(1, kLargestSize),
      number("model.rotary_percent", "rotated part of a head").value(1.0).above(0).below_or_at(1),
      boolean("model.bias", "biases in linear layers and norms"),
      boolean("model.qkv_bias", "biases of the query, key and value projection")
          .value(nullptr)
          .derive("bias", [](const Json& job) { return model(job, "bias"); }),
      boolean("model.qk_norm", "RMSNorm of each head's queries and keys"),
      integer("model.window", "sliding attention window in tokens, 0: none").value(0).range(0, kLargestSize),
      boolean("model.tied_embeddings", "output head shares the embedding"),
      number("model.attention_dropout", "dropout of attention weights").value(0.0).range(0, 0.99),
      number("model.hidden_dropout", "dropout of embeddings and residuals").value(0.0).range(0, 0.99),
      number("model.init_std", "standard deviation of initial weights").value(0.02).above(0).below_or_at(10),
      boolean("model.scaled_init", "output projections start smaller by sqrt(2 layers)").value(true),
      table("model.moe", "mixture of experts").nothing_built(),
      table("model.mla", "multi-head latent attention").nothing_built(),
      table("model.mtp", "multi-token prediction").nothing_built(),
  };
}

std::vector<Key> data_keys() {
  std::vector<Key> keys{table("data", "what is trained on")};
  for (const std::string name : {"train", "valid", "test"}) {
    keys.push_back(tables("data." + name, "token files (.bin and .idx) and their weights; Megatron's lists do too")
                       .text_for("path"));
    keys.push_back(text("data." + name + "[].path", "prefix of .bin and .idx").value(nullptr).required());
    keys.push_back(number("data." + name + "[].weight", "share in the blend").above(0).below_or_at(1e12));
  }
  std::vector<Key> rest{
      text("data.per_split", "Megatron's JSON file of lists for train, valid and test, instead of these keys"),
      text("data.text", "a plain text file instead of token files"),
      boolean("data.mock", "made-up tokens instead of data"),
      text("data.split", "shares of train, valid and test")
          .value(nullptr)
          .derive("969,30,1, but none where valid or test are listed", usual_split),
      optional_table("data.tokenizer", "how text becomes tokens").text_for("type"),
      text("data.tokenizer.type", "kind of tokenizer")
          .required()
          .one_of({"char", "bytes", "gpt2", "huggingface", "sentencepiece", "tiktoken"}),
      text("data.tokenizer.path", "file or folder of the tokenizer"),
      text("data.sampling", "how samples are taken from a text or from token files")
          .value("sequential")
          .one_of({"sequential", "random"}),
      text("data.cache", "folder for index files").value(""),
      boolean("data.reset_position_ids", "positions start anew in each document"),
      boolean("data.reset_attention_mask", "no attention across documents"),
      boolean("data.eod_mask_loss", "no loss on ends of documents"),
  };
  keys.insert(keys.end(), rest.begin(), rest.end());
  return keys;
}

std::vector<Key> parallel_keys() {
  return {
      table("parallel", "how the model is spread over ranks, or \"auto\"").word("auto", Json{{"automatic", true}}),
      integer("parallel.tp", "tensor parallel ranks").value(1).range(1, kLargestDegree),
      integer("parallel.cp", "context parallel ranks").value(1).range(1, kLargestDegree).not_built(),
      integer("parallel.pp", "pipeline stages").value(1).range(1, kLargestDegree),
      integer("parallel.vpp", "chunks of a pipeline rank").value(1).range(1, kLargestDegree),
      integer("parallel.ep", "expert parallel ranks").value(1).range(1, kLargestDegree).not_built(),
      integer("parallel.dp", "data parallel ranks").range(1, kLargestDegree).word("fill", 0).value(0),
      integer("parallel.etp", "tensor parallel ranks of experts, 0: as tp")
          .value(0)
          .range(0, kLargestDegree)
          .not_built(),
      boolean("parallel.automatic", "search the layout").not_built(),
      boolean("parallel.sequence_parallel", "split norms and dropout over tp along the sequence"),
      text("parallel.order", "which axis varies fastest over ranks, first to last").value("tp-cp-ep-dp-pp"),
      text("parallel.schedule", "pipeline schedule")
          .value("1f1b")
          .one_of({"1f1b"}, {"gpipe", "interleaved", "zero_bubble", "zbv", "dualpipe"}),
      text("parallel.pipeline_layout", "layers of each stage, by hand").not_built(),
      integer("parallel.first_stage_layers", "layers of the first stage, 0: an even share")
          .value(0)
          .range(0, 1e5)
          .not_built(),
      integer("parallel.last_stage_layers", "layers of the last stage, 0: an even share")
          .value(0)
          .range(0, 1e5)
          .not_built(),
      text("parallel.cp_comm", "how context parallel ranks exchange keys and values")
          .value("p2p")
          .one_of({"p2p"}, {"all_gather", "a2a", "a2a+p2p"}),
      boolean("parallel.overlap_grad_reduce", "reduce gradients while the backward pass runs").value(true),
      boolean("parallel.overlap_param_gather", "gather parameters while the forward pass runs").value(true),
      boolean("parallel.tp_comm_overlap", "overlap tensor parallel communication with matrix products").value(true),
      integer("parallel.bucket_size", "elements of a gradient bucket, 0: chosen").value(0).range(0, 1e12),
  };
}

std::vector<Key> train_keys() {
  return {
      table("train", "how it is trained"),
      integer("train.iterations", "optimizer steps (or give samples)")
          .range(1, kLargestCount)
          .derive("samples / global_batch", iterations_of_samples),
      integer("train.samples", "samples to train on, instead of iterations").value(0).range(1, kLargestCount),
      integer("train.micro_batch", "samples of a microbatch").value(1).range(1, kLargestBatch),
      integer("train.global_batch", "samples of a step over all ranks").required().range(1, kLargestBatch),
      integers("train.rampup_batch", "growing batch: start, step, samples")
          .sizes(0, 3)
          .range(1, kLargestCount)
          .not_built(),
      text("train.precision", "arithmetic of matrix products").value("fp32").one_of({"fp32", "bf16", "fp8"}, {"fp16"}),
      table("train.fp8", "details of fp8").text_for("recipe"),
      text("train.fp8.recipe", "scaling").value("current").one_of({"current", "delayed", "block"}),
      integer("train.fp8.amax_history", "steps of the delayed recipe").value(1024).range(1, 1 << 20),
      integer("train.fp8.first_last_bf16", "layers kept in bf16 at each end").value(0).range(0, 1e5),
      integer("train.seed", "of weights, data order and dropout").value(1234).range(0, 9.2e18),
      table("train.optimizer", "the optimizer").text_for("type"),
      text("train.optimizer.type", "kind of optimizer").value("adamw").one_of({"adamw"}),
      numbers("train.optimizer.betas", "decay of the first and second moment")
          .value({0.9, 0.95})
          .sizes(2, 2)
          .range(0, 0.9999999),
      number("train.optimizer.eps", "added to the root of the second moment").value(1e-8).above(0).below_or_at(1),
      number("train.optimizer.weight_decay", "decoupled weight decay of matrices").value(0.1).range(0, 10),
      number("train.optimizer.clip_grad", "largest global gradient norm, 0: no clipping").value(1.0).range(0, 1e12),
      boolean("train.optimizer.distributed", "split the optimizer's state over dp"),
      table("train.lr", "the learning rate"),
      text("train.lr.schedule", "its course")
          .value("cosine")
          .one_of({"cosine", "linear", "constant", "wsd", "inverse_sqrt"}),
      number("train.lr.peak", "its largest value").required().above(0).below_or_at(1e3),
      number("train.lr.min", "its last value").value(0.0).range(0, 1e3),
      number("train.lr.init", "its value at step 0, before warm-up").value(0.0).range(0, 1e3),
      integer("train.lr.warmup", "steps of warm-up").value(0).range(0, kLargestCount),
      number("train.lr.warmup_fraction", "warm-up as a part of decay_iterations, instead of warmup")
          .value(0.0)
          .range(0, 1),
      integer("train.lr.decay_iterations", "steps until min is reached")
          .range(1, kLargestCount)
          .derive("iterations", [](const Json& job) { return job.at("train").at("iterations"); }),
      integer("train.lr.wsd_decay", "steps of the last part of wsd, 0: a tenth of decay_iterations")
          .value(0)
          .range(0, kLargestCount),
      table("train.recompute", "activations computed again instead of kept").text_for("granularity"),
      text("train.recompute.granularity", "what is computed again")
          .value("none")
          .one_of({"none", "full"}, {"selective"}),
      text("train.recompute.method", "which layers").value("uniform").one_of({"uniform", "block"}),
      integer("train.recompute.layers", "layers of a group or block").value(0).range(0, 1e5),
      texts("train.recompute.modules", "parts that selective recomputing takes"),
      text("train.grad_reduce_dtype", "type in which gradients are summed").value("fp32").one_of({"fp32"}, {"bf16"}),
      number("train.loss_scale", "of fp16, 0: dynamic").value(0.0).range(0, 1e18).not_built(),
      boolean("train.deterministic", "only algorithms that give the same bits each time"),
      text("train.on_nan", "what a loss that is not finite does").value("stop").one_of({"stop", "skip"}, {"rewind"}),
      integers("train.skip_iterations", "steps whose data are passed over").range(0, kLargestCount),
      integer("train.exit_interval", "stop at the first multiple of this many steps, 0: never")
          .value(0)
          .range(0, kLargestCount),
      duration("train.exit_duration", "stop after this time, 0: never").value(0.0),
  };
}

std::vector<Key> other_keys() {
  return {
      table("checkpoint", "what is saved and resumed"),
      text("checkpoint.dir", "folder, relative to the run directory").value("ckpt"),
      integer("checkpoint.every", "steps between two saves, 0: only at the end").value(0).range(0, kLargestCount),
      integer("checkpoint.keep", "newest checkpoints that are kept, 0: all").value(0).range(0, kLargestCount),
      integer("checkpoint.keep_every", "checkpoints of multiples of this many steps are kept for good, 0: none")
          .value(0)
          .range(0, kLargestCount),
      boolean("checkpoint.async", "write while training goes on").value(true),
      text("checkpoint.resume", "whether a run directory's checkpoint is continued")
          .value("auto")
          .one_of({"auto", "never", "must"}),
      optional_table("checkpoint.init_from", "start from another run's weights").text_for("path"),
      text("checkpoint.init_from.path", "its checkpoint folder").value(nullptr).required(),
      integer("checkpoint.init_from.step", "which step, -1: the last").value(-1).range(-1, kLargestCount),
      boolean("checkpoint.init_from.weights_only", "leave the optimizer and data position"),
      boolean("checkpoint.init_from.reset_optimizer", "leave the optimizer"),
      boolean("checkpoint.init_from.reset_lr", "start the schedule anew"),
      boolean("checkpoint.init_from.reset_data", "start the data anew"),
      table("run", "how it is run"),
      text("run.device", "where it computes").value("auto").one_of({"auto", "cpu", "cuda"}),
      text("run.communicator", "what carries messages").value("auto").one_of({"auto", "mpi", "nccl"}),
      integer("run.threads", "threads of a rank").range(1, 4096).word("auto", 0).value(0),
      duration("run.timeout", "longest wait for other ranks").value(600.0).above(0),
      integer("run.max_restarts", "restarts after failures").value(3).range(0, 1e6),
      integer("run.spare_nodes", "nodes of the allocation kept in reserve").value(0).range(0, 1e5),
      boolean("run.requeue", "ask Slurm to queue the job again before the time limit").value(true),
      text_map("run.setenv", "environment variables of the ranks"),
      table("eval", "validation"),
      integer("eval.every", "steps between two evaluations, 0: none").value(0).range(0, kLargestCount),
      integer("eval.batches", "global batches of an evaluation")
          .range(1, kLargestCount)
          .derive("20 when every is given",
                  [](const Json& job) { return Json(job.at("eval").at("every").get<std::int64_t>() > 0 ? 20 : 0); }),
      table("log", "what is written while it runs"),
      integer("log.every", "steps between two lines").value(1).range(1, kLargestCount),
      boolean("log.tensorboard", "write TensorBoard events").value(true),
      text("log.format", "form of the lines").value("railyard").one_of({"railyard", "megatron"}),
      table("profile", "NVTX ranges").not_built(),
      integer("profile.start", "first step, -1: none").value(-1).range(-1, kLargestCount),
      integer("profile.stop", "last step, -1: none").value(-1).range(-1, kLargestCount),
      integers("profile.ranks", "which ranks").range(0, 1e7),
  };
}

std::vector<Key> all_keys() {
  std::vector<Key> keys{text("name", "of the run; its directory is runs/NAME").value("")};
  for (const auto& part : {model_keys(), data_keys(), parallel_keys(), train_keys(), other_keys()})
    keys.insert(keys.end(), part.begin(), part.end());
  return keys;
}

}  // namespace

const Schema& job_schema() {
  static const Schema schema(all_keys(), megatron_answer);
  return schema;
}

}  // namespace railyard::lua
