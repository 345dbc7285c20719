// config.json to ModelSpec and back.
#include <cmath>
#include <map>
#include <set>

#include "runtime/base/error.hpp"
#include "runtime/checkpoint/hf/model.hpp"
#include "runtime/checkpoint/json_field.hpp"

namespace railyard {
namespace {

constexpr std::int64_t kLargest = std::int64_t{1} << 31;  // of any extent: products of two stay in 63 bits

std::int64_t size_of(const JsonField& config, const char* key) { return config.at(key).integer(1, kLargest); }

std::int64_t size_or(const JsonField& config, const char* key, std::int64_t fallback) {
  return config.has(key) ? size_of(config, key) : fallback;
}

void refuse(const JsonField& config, const char* key, bool unusual, const char* what) {
  if (unusual) config.fail(fmt::format("{}: {}: not built yet", key, what));
}

// Rotary settings: rope_theta and rope_scaling (transformers 4) or rope_parameters (5).
void read_rope(const JsonField& config, ModelSpec& spec, double default_theta) {
  spec.position = "rope";
  spec.rope_theta = config.number_or("rope_theta", default_theta);
  spec.rotary_percent = config.number_or("partial_rotary_factor", config.number_or("rope_percentage", 1.0));
  const char* key = config.has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  if (!config.has(key)) return;
  const JsonField rope = config.at(key);
  spec.rope_theta = rope.number_or("rope_theta", spec.rope_theta);
  spec.rotary_percent = rope.number_or("partial_rotary_factor", spec.rotary_percent);
  const std::string type = rope.string_or("rope_type", rope.string_or("type", "default"));
  if (type == "default") return;
  RopeScaling scaling;
  scaling.type = type;
  scaling.factor = rope.at("factor").number();
  if (type == "llama3") {
    scaling.low_freq_factor = rope.at("low_freq_factor").number();
    scaling.high_freq_factor = rope.at("high_freq_factor").number();
    scaling.original_max_positions = rope.at("original_max_position_embeddings").integer(1, kLargest);
  } else if (type != "linear") {
    rope.fail(fmt::format("the scaling \"{}\": not built yet", type));
  }
  spec.rope_scaling = scaling;
}

// The window of Mistral and Qwen: one for all layers, or none.
std::int64_t read_window(const JsonField& config, const ModelSpec& spec) {
  if (config.has("layer_types")) {
    std::set<std::string> kinds;
    const JsonField types = config.at("layer_types");
    if (!types.json().is_array()) types.fail("expected a list");
    for (const Json& item : types.json()) kinds.insert(item.is_string() ? item.get<std::string>() : "");
    if (kinds == std::set<std::string>{"full_attention"}) return 0;
    if (kinds != std::set<std::string>{"sliding_attention"}) types.fail("layers of different kinds: not built yet");
    return size_of(config, "sliding_window");
  }
  if (!config.has("sliding_window") || !config.boolean_or("use_sliding_window", true)) return 0;
  const std::int64_t full_layers = config.integer_or("max_window_layers", 0);
  if (full_layers >= spec.layers) return 0;
  if (config.boolean_or("use_sliding_window", false) && full_layers > 0)
    config.fail("max_window_layers: a window on some layers only: not built yet");
  return size_of(config, "sliding_window");
}

ModelSpec common_spec() {
  ModelSpec spec;
  spec.vocab_divisible_by = 128;
  spec.scaled_init = true;
  return spec;
}

ModelSpec read_gpt2(const JsonField& config) {
  ModelSpec spec = common_spec();
  spec.hidden = size_of(config, "n_embd");
  spec.layers = size_of(config, "n_layer");
  spec.heads = spec.kv_heads = size_of(config, "n_head");
  if (spec.hidden % spec.heads != 0) config.fail("n_embd is no multiple of n_head");
  spec.head_dim = spec.hidden / spec.heads;
  spec.ffn = size_or(config, "n_inner", 4 * spec.hidden);
  spec.vocab = size_of(config, "vocab_size");
  spec.max_positions = spec.seq_length = size_of(config, "n_positions");
  spec.norm = "layernorm";
  spec.norm_eps = config.number_or("layer_norm_epsilon", 1e-5);
  spec.position = "learned";
  spec.bias = true;
  spec.tied_embeddings = config.boolean_or("tie_word_embeddings", true);
  spec.attention_dropout = config.number_or("attn_pdrop", 0.1);
  spec.hidden_dropout = config.number_or("resid_pdrop", 0.1);
  spec.init_std = config.number_or("initializer_range", 0.02);
  const std::string activation = config.string_or("activation_function", "gelu_new");
  if (activation == "gelu_new" || activation == "gelu_pytorch_tanh") {
    spec.activation = "gelu_tanh";
  } else if (activation == "gelu") {
    spec.activation = "gelu";
  } else {
    config.fail(fmt::format("activation_function \"{}\": not built yet", activation));
  }
  refuse(config, "scale_attn_weights", !config.boolean_or("scale_attn_weights", true), "false");
  refuse(config, "scale_attn_by_inverse_layer_idx", config.boolean_or("scale_attn_by_inverse_layer_idx", false),
         "true");
  refuse(config, "add_cross_attention", config.boolean_or("add_cross_attention", false), "true");
  return spec;
}

// Sizes that Llama and all its relatives spell alike.
ModelSpec read_llama_sizes(const JsonField& config, std::int64_t default_max_positions) {
  ModelSpec spec = common_spec();
  spec.hidden = size_of(config, "hidden_size");
  spec.layers = size_of(config, "num_hidden_layers");
  spec.heads = size_of(config, "num_attention_heads");
  spec.kv_heads = size_or(config, "num_key_value_heads", spec.heads);
  if (spec.heads % spec.kv_heads != 0) config.fail("num_attention_heads is no multiple of num_key_value_heads");
  if (!config.has("head_dim") && spec.hidden % spec.heads != 0)
    config.fail("hidden_size is no multiple of num_attention_heads, and there is no head_dim");
  spec.head_dim = size_or(config, "head_dim", spec.hidden / spec.heads);
  spec.ffn = size_of(config, "intermediate_size");
  spec.vocab = size_of(config, "vocab_size");
  spec.max_positions = spec.seq_length = size_or(config, "max_position_embeddings", default_max_positions);
  spec.norm = "rmsnorm";
  spec.norm_eps = config.number_or("rms_norm_eps", 1e-6);
  spec.tied_embeddings = config.boolean_or("tie_word_embeddings", false);
  spec.attention_dropout = config.number_or("attention_dropout", 0.0);
  spec.init_std = config.number_or("initializer_range", 0.02);
  return spec;
}

void read_swiglu(const JsonField& config, ModelSpec& spec) {
  const std::string activation = config.string_or("hidden_act", "silu");
  if (activation != "silu") config.fail(fmt::format("hidden_act \"{}\": not built yet", activation));
  spec.activation = "swiglu";
}

// attention_bias is about q, k, v and o, mlp_bias about the MLP: ours are all or none.
void read_biases(const JsonField& config, ModelSpec& spec) {
  const bool attention = config.boolean_or("attention_bias", false), mlp = config.boolean_or("mlp_bias", false);
  if (attention != mlp) config.fail("attention_bias and mlp_bias differ: not built yet");
  spec.bias = attention;
}

ModelSpec read_nemotron(const JsonField& config) {
  ModelSpec spec = read_llama_sizes(config, 4096);
  spec.norm = "layernorm1p";
  spec.norm_eps = config.number_or("norm_eps", 1e-5);
  spec.init_std = config.number_or("initializer_range", 0.0134);
  const std::string activation = config.string_or("hidden_act", "relu2");
  if (activation != "relu2") config.fail(fmt::format("hidden_act \"{}\": not built yet", activation));
  spec.activation = "squared_relu";
  read_biases(config, spec);
  read_rope(config, spec, 10000.0);
  if (!config.has("partial_rotary_factor") && !config.has("rope_percentage") &&
      !(config.has("rope_parameters") && config.at("rope_parameters").has("partial_rotary_factor")))
    spec.rotary_percent = 0.5;
  return spec;
}

ModelSpec read_llama_like(const std::string& architecture, const JsonField& config) {
  const bool qwen3 = architecture == "Qwen3ForCausalLM", qwen2 = architecture == "Qwen2ForCausalLM";
  const bool mistral = architecture == "MistralForCausalLM";
  ModelSpec spec = read_llama_sizes(config, qwen2 || qwen3 ? 32768 : mistral ? 131072 : 2048);
  if (qwen3 && !config.has("head_dim")) spec.head_dim = 128;
  read_swiglu(config, spec);
  read_rope(config, spec, 10000.0);
  if (architecture == "LlamaForCausalLM") read_biases(config, spec);
  if (qwen3) refuse(config, "attention_bias", config.boolean_or("attention_bias", false), "true");
  spec.qkv_bias = qwen2;
  spec.qk_norm = qwen3;
  if (architecture != "LlamaForCausalLM") spec.window = read_window(config, spec);
  return spec;
}

Json rope_scaling_json(const RopeScaling& scaling) {
  Json out = {{"rope_type", scaling.type}, {"factor", scaling.factor}};
  if (scaling.type == "llama3") {
    out["low_freq_factor"] = scaling.low_freq_factor;
    out["high_freq_factor"] = scaling.high_freq_factor;
    out["original_max_position_embeddings"] = scaling.original_max_positions;
  }
  return out;
}

Json gpt2_json(const ModelSpec& model) {
  return {{"architectures", {"GPT2LMHeadModel"}},
          {"model_type", "gpt2"},
          {"activation_function", model.activation == "gelu_tanh" ? "gelu_new" : "gelu"},
          {"attn_pdrop", model.attention_dropout},
          {"embd_pdrop", model.hidden_dropout},
          {"resid_pdrop", model.hidden_dropout},
          {"initializer_range", model.init_std},
          {"layer_norm_epsilon", model.norm_eps},
          {"n_embd", model.hidden},
          {"n_head", model.heads},
          {"n_inner", model.ffn},
          {"n_layer", model.layers},
          {"n_positions", model.max_positions},
          {"n_ctx", model.max_positions},
          {"tie_word_embeddings", model.tied_embeddings},
          {"vocab_size", model.vocab}};
}

Json llama_json(const std::string& architecture, const ModelSpec& model) {
  static const std::map<std::string, std::string> kTypes = {{"LlamaForCausalLM", "llama"},
                                                            {"MistralForCausalLM", "mistral"},
                                                            {"Qwen2ForCausalLM", "qwen2"},
                                                            {"Qwen3ForCausalLM", "qwen3"},
                                                            {"NemotronForCausalLM", "nemotron"}};
  Json out = {{"architectures", {architecture}},
              {"model_type", kTypes.at(architecture)},
              {"hidden_size", model.hidden},
              {"intermediate_size", model.ffn},
              {"num_hidden_layers", model.layers},
              {"num_attention_heads", model.heads},
              {"num_key_value_heads", model.kv_heads},
              {"head_dim", model.head_dim},
              {"max_position_embeddings", model.max_positions},
              {"vocab_size", model.vocab},
              {"tie_word_embeddings", model.tied_embeddings},
              {"attention_dropout", model.attention_dropout},
              {"initializer_range", model.init_std},
              {"rope_theta", model.rope_theta},
              {"rope_scaling", model.rope_scaling ? rope_scaling_json(*model.rope_scaling) : Json(nullptr)}};
  if (architecture == "NemotronForCausalLM") {
    out["norm_eps"] = model.norm_eps;
    out["hidden_act"] = "relu2";
    out["partial_rotary_factor"] = model.rotary_percent;
  } else {
    out["rms_norm_eps"] = model.norm_eps;
    out["hidden_act"] = "silu";
  }
  if (architecture == "LlamaForCausalLM" || architecture == "NemotronForCausalLM") {
    out["attention_bias"] = model.bias;
    out["mlp_bias"] = model.bias;
  } else if (architecture == "Qwen3ForCausalLM") {
    out["attention_bias"] = false;
  }
  if (architecture != "LlamaForCausalLM" && architecture != "NemotronForCausalLM")
    out["sliding_window"] = model.window > 0 ? Json(model.window) : Json(nullptr);
  if (architecture.starts_with("Qwen")) {
    out["use_sliding_window"] = model.window > 0;
    out["max_window_layers"] = model.window > 0 ? 0 : model.layers;
  }
  return out;
}

// The architecture of theirs that computes the same; UsageError when there is none.
std::string architecture_for(const ModelSpec& model) {
  const auto refuse_key = [](const std::string& keys) {
    throw UsageError("no architecture of Hugging Face transformers that we know has {}", keys);
  };
  if (model.position == "learned") {
    if (model.norm != "layernorm" || (model.activation != "gelu" && model.activation != "gelu_tanh"))
      refuse_key(
          fmt::format("position = \"learned\" with norm = \"{}\", activation = \"{}\"", model.norm, model.activation));
    if (model.kv_heads != model.heads || model.head_dim * model.heads != model.hidden || model.qk_norm ||
        model.window > 0)
      refuse_key("position = \"learned\" with kv_heads, head_dim, qk_norm or window");
    return "GPT2LMHeadModel";
  }
  if (model.position != "rope") refuse_key(fmt::format("position = \"{}\"", model.position));
  if (model.norm == "layernorm1p" && model.activation == "squared_relu") {
    if (model.qkv_bias || model.qk_norm || model.window > 0)
      refuse_key("activation = \"squared_relu\" with qkv_bias, qk_norm or window");
    return "NemotronForCausalLM";
  }
  if (model.norm != "rmsnorm" || model.activation != "swiglu")
    refuse_key(fmt::format("norm = \"{}\" with activation = \"{}\"", model.norm, model.activation));
  if (model.rotary_percent != 1.0) refuse_key("activation = \"swiglu\" with rotary_percent");
  if (model.bias && (model.qk_norm || model.window > 0)) refuse_key("bias with qk_norm or window");
  if (model.bias) return "LlamaForCausalLM";
  if (model.qk_norm && model.qkv_bias) refuse_key("qk_norm with qkv_bias");
  if (model.qk_norm) return "Qwen3ForCausalLM";
  if (model.qkv_bias && model.head_dim * model.heads != model.hidden) refuse_key("qkv_bias with head_dim");
  if (model.qkv_bias) return "Qwen2ForCausalLM";
  return model.window > 0 ? "MistralForCausalLM" : "LlamaForCausalLM";
}

}  // namespace

HfModel read_hf_config(const Json& config, const std::string& source) {
  const JsonField root(config, "", source);
  const JsonField list = root.at("architectures");
  if (!list.json().is_array() || list.json().size() != 1 || !list.json()[0].is_string())
    list.fail("expected a list of one name");
  HfModel model{list.json()[0].get<std::string>(), config, {}, {}};
  const std::string& name = model.architecture;
  if (name == "GPT2LMHeadModel") {
    model.spec = read_gpt2(root);
  } else if (name == "LlamaForCausalLM" || name == "MistralForCausalLM" || name == "Qwen2ForCausalLM" ||
             name == "Qwen3ForCausalLM") {
    model.spec = read_llama_like(name, root);
  } else if (name == "NemotronForCausalLM") {
    model.spec = read_nemotron(root);
  } else if (name == "MixtralForCausalLM") {
    model.not_built = "experts";
  } else if (name == "DeepseekV3ForCausalLM" || name == "DeepseekV2ForCausalLM") {
    model.not_built = "experts and latent attention";
  } else {
    root.fail(
        fmt::format("architecture {}: not built yet; known are GPT2LMHeadModel, LlamaForCausalLM, "
                    "MistralForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM, NemotronForCausalLM, "
                    "MixtralForCausalLM, DeepseekV2ForCausalLM and DeepseekV3ForCausalLM",
                    name));
  }
  return model;
}

HfModel make_hf_config(const ModelSpec& model, DType dtype) {
  HfModel out;
  out.architecture = architecture_for(model);
  out.spec = model;
  out.config = out.architecture == "GPT2LMHeadModel" ? gpt2_json(model) : llama_json(out.architecture, model);
  // transformers takes the names of PyTorch's types.
  static const std::map<DType, const char*> kNames = {
      {DType::kFloat32, "float32"}, {DType::kBFloat16, "bfloat16"}, {DType::kFloat16, "float16"}};
  const auto found = kNames.find(dtype);
  if (found == kNames.end()) throw UsageError("weights of type {} cannot be exported", dtype_name(dtype));
  out.config["torch_dtype"] = found->second;
  return out;
}

}  // namespace railyard
