// Reads and writes the resolved job. Each struct's keys are listed once, in visit(), for both directions.
#include "runtime/base/job.hpp"

#include <cmath>
#include <concepts>

#include "runtime/base/error.hpp"

namespace railyard {
namespace {

// Fields, in the order in which job.json shows them.
template <class V>
void visit(V& v, RopeScaling& s) {
  v("type", s.type);
  v("factor", s.factor);
  v("low_freq_factor", s.low_freq_factor);
  v("high_freq_factor", s.high_freq_factor);
  v("original_max_positions", s.original_max_positions);
}
template <class V>
void visit(V& v, ModelSpec& s) {
  v("layers", s.layers);
  v("hidden", s.hidden);
  v("heads", s.heads);
  v("kv_heads", s.kv_heads);
  v("head_dim", s.head_dim);
  v("ffn", s.ffn);
  v("vocab", s.vocab);
  v("vocab_divisible_by", s.vocab_divisible_by);
  v("seq_length", s.seq_length);
  v("max_positions", s.max_positions);
  v("norm", s.norm);
  v("norm_eps", s.norm_eps);
  v("activation", s.activation);
  v("position", s.position);
  v("rope_theta", s.rope_theta);
  v("rope_scaling", s.rope_scaling);
  v("rotary_percent", s.rotary_percent);
  v("bias", s.bias);
  v("qkv_bias", s.qkv_bias);
  v("qk_norm", s.qk_norm);
  v("window", s.window);
  v("tied_embeddings", s.tied_embeddings);
  v("attention_dropout", s.attention_dropout);
  v("hidden_dropout", s.hidden_dropout);
  v("init_std", s.init_std);
  v("scaled_init", s.scaled_init);
}
template <class V>
void visit(V& v, DataSource& s) {
  v("path", s.path);
  v("weight", s.weight);
}
template <class V>
void visit(V& v, TokenizerSpec& s) {
  v("type", s.type);
  v("path", s.path);
}
template <class V>
void visit(V& v, DataSpec& s) {
  v("train", s.train);
  v("valid", s.valid);
  v("test", s.test);
  v("text", s.text);
  v("mock", s.mock);
  v("split", s.split);
  v("tokenizer", s.tokenizer);
  v("sampling", s.sampling);
  v("cache", s.cache);
  v("reset_position_ids", s.reset_position_ids);
  v("reset_attention_mask", s.reset_attention_mask);
  v("eod_mask_loss", s.eod_mask_loss);
}
template <class V>
void visit(V& v, ParallelSpec& s) {
  v("tp", s.tp);
  v("cp", s.cp);
  v("dp", s.dp);
  v("pp", s.pp);
  v("vpp", s.vpp);
  v("ep", s.ep);
  v("etp", s.etp);
  v("automatic", s.automatic);
  v("sequence_parallel", s.sequence_parallel);
  v("order", s.order);
  v("schedule", s.schedule);
  v("pipeline_layout", s.pipeline_layout);
  v("first_stage_layers", s.first_stage_layers);
  v("last_stage_layers", s.last_stage_layers);
  v("cp_comm", s.cp_comm);
  v("overlap_grad_reduce", s.overlap_grad_reduce);
  v("overlap_param_gather", s.overlap_param_gather);
  v("tp_comm_overlap", s.tp_comm_overlap);
  v("bucket_size", s.bucket_size);
}
template <class V>
void visit(V& v, OptimizerSpec& s) {
  v("type", s.type);
  v("beta1", s.beta1);
  v("beta2", s.beta2);
  v("eps", s.eps);
  v("weight_decay", s.weight_decay);
  v("clip_grad", s.clip_grad);
  v("distributed", s.distributed);
}
template <class V>
void visit(V& v, LearningRateSpec& s) {
  v("schedule", s.schedule);
  v("peak", s.peak);
  v("min", s.min);
  v("init", s.init);
  v("warmup", s.warmup);
  v("warmup_fraction", s.warmup_fraction);
  v("decay_iterations", s.decay_iterations);
  v("wsd_decay", s.wsd_decay);
}
template <class V>
void visit(V& v, Fp8Spec& s) {
  v("recipe", s.recipe);
  v("amax_history", s.amax_history);
  v("first_last_bf16", s.first_last_bf16);
}
template <class V>
void visit(V& v, RecomputeSpec& s) {
  v("granularity", s.granularity);
  v("method", s.method);
  v("layers", s.layers);
  v("modules", s.modules);
}
template <class V>
void visit(V& v, TrainSpec& s) {
  v("iterations", s.iterations);
  v("micro_batch", s.micro_batch);
  v("global_batch", s.global_batch);
  v("rampup_batch", s.rampup_batch);
  v("precision", s.precision);
  v("fp8", s.fp8);
  v("seed", s.seed);
  v("optimizer", s.optimizer);
  v("lr", s.lr);
  v("recompute", s.recompute);
  v("grad_reduce_dtype", s.grad_reduce_dtype);
  v("loss_scale", s.loss_scale);
  v("deterministic", s.deterministic);
  v("on_nan", s.on_nan);
  v("skip_iterations", s.skip_iterations);
  v("exit_interval", s.exit_interval);
  v("exit_duration", s.exit_duration);
}
template <class V>
void visit(V& v, InitFromSpec& s) {
  v("path", s.path);
  v("step", s.step);
  v("weights_only", s.weights_only);
  v("reset_optimizer", s.reset_optimizer);
  v("reset_lr", s.reset_lr);
  v("reset_data", s.reset_data);
}
template <class V>
void visit(V& v, CheckpointSpec& s) {
  v("dir", s.dir);
  v("every", s.every);
  v("keep", s.keep);
  v("keep_every", s.keep_every);
  v("async", s.async);
  v("resume", s.resume);
  v("init_from", s.init_from);
}
template <class V>
void visit(V& v, RunSpec& s) {
  v("device", s.device);
  v("communicator", s.communicator);
  v("threads", s.threads);
  v("timeout", s.timeout);
  v("max_restarts", s.max_restarts);
  v("spare_nodes", s.spare_nodes);
  v("requeue", s.requeue);
  v("setenv", s.setenv);
}
template <class V>
void visit(V& v, EvalSpec& s) {
  v("every", s.every);
  v("batches", s.batches);
}
template <class V>
void visit(V& v, LogSpec& s) {
  v("every", s.every);
  v("tensorboard", s.tensorboard);
  v("format", s.format);
}
template <class V>
void visit(V& v, ProfileSpec& s) {
  v("start", s.start);
  v("stop", s.stop);
  v("ranks", s.ranks);
}
template <class V>
void visit(V& v, JobSpec& s) {
  v("name", s.name);
  v("model", s.model);
  v("data", s.data);
  v("parallel", s.parallel);
  v("train", s.train);
  v("checkpoint", s.checkpoint);
  v("run", s.run);
  v("eval", s.eval);
  v("log", s.log);
  v("profile", s.profile);
}

class Writer {
 public:
  Json json = Json::object();
  template <class T>
  void operator()(const char* key, T& value) {
    json[key] = convert(value);
  }

 private:
  template <class T>
  static Json convert(T& value) {
    if constexpr (requires(Writer & w) { visit(w, value); }) {
      Writer inner;
      visit(inner, value);
      return inner.json;
    } else {
      return value;
    }
  }
  template <class T>
  static Json convert(std::optional<T>& value) {
    return value ? convert(*value) : Json(nullptr);
  }
  template <class T>
  static Json convert(std::vector<T>& value) {
    Json list = Json::array();
    for (T& item : value) list.push_back(convert(item));
    return list;
  }
};

class Reader {
 public:
  Reader(const Json& json, std::string path, const std::string& source)
      : json_(json), path_(std::move(path)), source_(source) {
    if (!json.is_object()) throw UsageError("{}: {}: expected a table", source_, path_.empty() ? "document" : path_);
  }
  template <class T>
  void operator()(const char* key, T& value) {
    const std::string path = path_.empty() ? key : path_ + "." + key;
    const auto found = json_.find(key);
    if (found == json_.end())
      throw UsageError("{}: {}: missing; the file was not written by this version", source_, path);
    convert(*found, value, path);
  }

 private:
  [[noreturn]] void fail(const std::string& path, const char* expected) const {
    throw UsageError("{}: {}: expected {}", source_, path, expected);
  }
  template <class T>
  void convert(const Json& json, T& value, const std::string& path) {
    if constexpr (requires(Reader & r) { visit(r, value); }) {
      Reader inner(json, path, source_);
      visit(inner, value);
    } else if constexpr (std::same_as<T, bool>) {
      if (!json.is_boolean()) fail(path, "true or false");
      value = json.get<bool>();
    } else if constexpr (std::integral<T>) {
      if (!json.is_number_integer()) fail(path, "an integer");
      value = json.get<T>();
    } else if constexpr (std::floating_point<T>) {
      if (!json.is_number()) fail(path, "a number");
      value = json.get<T>();
    } else {
      static_assert(std::same_as<T, std::string>);
      if (!json.is_string()) fail(path, "a string");
      value = json.get<std::string>();
    }
  }
  template <class T>
  void convert(const Json& json, std::optional<T>& value, const std::string& path) {
    if (json.is_null()) {
      value.reset();
      return;
    }
    convert(json, value.emplace(), path);
  }
  template <class T>
  void convert(const Json& json, std::vector<T>& value, const std::string& path) {
    if (!json.is_array()) fail(path, "a list");
    value.clear();
    for (const Json& item : json) convert(item, value.emplace_back(), fmt::format("{}[{}]", path, value.size()));
  }
  void convert(const Json& json, std::map<std::string, std::string>& value, const std::string& path) {
    if (!json.is_object()) fail(path, "a table of strings");
    value.clear();
    for (const auto& [key, item] : json.items()) convert(item, value[key], path + "." + key);
  }

  const Json& json_;
  std::string path_;
  const std::string& source_;
};

}  // namespace

std::int64_t ModelSpec::rope_dims() const {
  return 2 * static_cast<std::int64_t>(std::floor(rotary_percent * static_cast<double>(head_dim) / 2.0));
}

JobSpec JobSpec::from_json(const Json& document, const std::string& source) {
  JobSpec job;
  Reader reader(document, "", source);
  visit(reader, job);
  return job;
}

Json JobSpec::to_json() const {
  JobSpec copy = *this;
  Writer writer;
  visit(writer, copy);
  return writer.json;
}

}  // namespace railyard
