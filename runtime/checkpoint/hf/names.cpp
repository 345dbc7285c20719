// Their tensors and ours, architecture by architecture.
#include <regex>

#include "runtime/base/error.hpp"
#include "runtime/checkpoint/hf/model.hpp"
#include "runtime/checkpoint/json_field.hpp"

namespace railyard {
namespace {

using Present = std::function<bool(const std::string&)>;

// More tensors than any model has: a config.json that says so is wrong, and must not fill the memory.
constexpr std::size_t kMostParts = 4'000'000;
// Products of three sizes stay in 63 bits.
constexpr std::int64_t kLargest = 1 << 20;

// Collects parts of one model.
struct Map {
  std::vector<HfPart> parts;

  // The whole of one of theirs.
  void same(const std::string& ours, Extents shape, const std::string& theirs,
            std::optional<RotaryRows> rotary = std::nullopt) {
    if (parts.size() > kMostParts) throw UsageError("config.json: its sizes make more than {} tensors", kMostParts);
    parts.push_back({ours, shape, theirs, shape, 0, false, rotary});
  }
  // A linear layer [out, in], with or without its bias.
  void linear(const std::string& ours, std::int64_t out, std::int64_t in, const std::string& theirs, bool bias) {
    same(ours + ".weight", {out, in}, theirs + ".weight");
    if (bias) same(ours + ".bias", {out}, theirs + ".bias");
  }
  // Rows [first, first + out) of a Conv1D of `total` outputs, with its bias. Theirs always has one: zeros where ours
  // has none.
  void conv1d(const std::string& ours, std::int64_t first, std::int64_t out, std::int64_t total, std::int64_t in,
              const std::string& theirs, bool bias) {
    parts.push_back({ours + ".weight", {out, in}, theirs + ".weight", {in, total}, first, true, std::nullopt});
    parts.push_back({bias ? ours + ".bias" : "", {out}, theirs + ".bias", {total}, first, false, std::nullopt});
  }
  void layer_norm(const std::string& ours, std::int64_t size, const std::string& theirs, bool bias) {
    same(ours + ".weight", {size}, theirs + ".weight");
    same(bias ? ours + ".bias" : "", {size}, theirs + ".bias");
  }
  void norm(const std::string& ours, std::int64_t size, const std::string& theirs, bool bias) {
    same(ours + ".weight", {size}, theirs + ".weight");
    if (bias) same(ours + ".bias", {size}, theirs + ".bias");
  }
};

void gpt2_parts(const ModelSpec& m, const Present& present, Map& map) {
  // The bare model is saved without the prefix that the one with a head has.
  const std::string root = present && !present("transformer.wte.weight") ? "" : "transformer.";
  map.same("embedding.word_embeddings.weight", {m.vocab, m.hidden}, root + "wte.weight");
  map.same("embedding.position_embeddings.weight", {m.max_positions, m.hidden}, root + "wpe.weight");
  for (std::int64_t i = 0; i < m.layers; ++i) {
    const std::string ours = fmt::format("layers.{}.", i), theirs = fmt::format("{}h.{}.", root, i);
    map.layer_norm(ours + "input_norm", m.hidden, theirs + "ln_1", m.bias);
    const char* names[] = {"query", "key", "value"};
    for (std::int64_t k = 0; k < 3; ++k)
      map.conv1d(ours + "self_attention." + names[k], k * m.hidden, m.hidden, 3 * m.hidden, m.hidden,
                 theirs + "attn.c_attn", m.bias || m.qkv_bias);
    map.conv1d(ours + "self_attention.proj", 0, m.hidden, m.hidden, m.hidden, theirs + "attn.c_proj", m.bias);
    map.layer_norm(ours + "pre_mlp_norm", m.hidden, theirs + "ln_2", m.bias);
    map.conv1d(ours + "mlp.up", 0, m.ffn, m.ffn, m.hidden, theirs + "mlp.c_fc", m.bias);
    map.conv1d(ours + "mlp.down", 0, m.hidden, m.hidden, m.ffn, theirs + "mlp.c_proj", m.bias);
  }
  map.layer_norm("final_norm", m.hidden, root + "ln_f", m.bias);
  if (!m.tied_embeddings) map.same("output.weight", {m.vocab, m.hidden}, "lm_head.weight");
}

void llama_parts(const ModelSpec& m, Map& map) {
  map.same("embedding.word_embeddings.weight", {m.vocab, m.hidden}, "model.embed_tokens.weight");
  for (std::int64_t i = 0; i < m.layers; ++i) {
    const std::string ours = fmt::format("layers.{}.", i), theirs = fmt::format("model.layers.{}.", i);
    const std::int64_t query = m.heads * m.head_dim, key = m.kv_heads * m.head_dim;
    map.norm(ours + "input_norm", m.hidden, theirs + "input_layernorm", m.norm_has_bias());
    map.linear(ours + "self_attention.query", query, m.hidden, theirs + "self_attn.q_proj", m.bias || m.qkv_bias);
    map.linear(ours + "self_attention.key", key, m.hidden, theirs + "self_attn.k_proj", m.bias || m.qkv_bias);
    map.linear(ours + "self_attention.value", key, m.hidden, theirs + "self_attn.v_proj", m.bias || m.qkv_bias);
    map.linear(ours + "self_attention.proj", m.hidden, query, theirs + "self_attn.o_proj", m.bias);
    if (m.qk_norm) {
      map.norm(ours + "self_attention.query_norm", m.head_dim, theirs + "self_attn.q_norm", false);
      map.norm(ours + "self_attention.key_norm", m.head_dim, theirs + "self_attn.k_norm", false);
    }
    map.norm(ours + "pre_mlp_norm", m.hidden, theirs + "post_attention_layernorm", m.norm_has_bias());
    if (m.gated()) map.linear(ours + "mlp.gate", m.ffn, m.hidden, theirs + "mlp.gate_proj", m.bias);
    map.linear(ours + "mlp.up", m.ffn, m.hidden, theirs + "mlp.up_proj", m.bias);
    map.linear(ours + "mlp.down", m.hidden, m.ffn, theirs + "mlp.down_proj", m.bias);
  }
  map.norm("final_norm", m.hidden, "model.norm", m.norm_has_bias());
  if (!m.tied_embeddings) map.same("output.weight", {m.vocab, m.hidden}, "lm_head.weight");
}

// ---- experts: sizes come from the config, as ModelSpec does not have them ----

class MoeSizes {
 public:
  explicit MoeSizes(const HfModel& model) : config_(model.config, "", kSource) {}
  [[nodiscard]] std::int64_t operator()(const char* key) const { return config_.at(key).integer(1, kLargest); }
  [[nodiscard]] std::int64_t get(const char* key, std::int64_t fallback) const {
    return config_.has(key) ? config_.at(key).integer(0, kLargest) : fallback;
  }
  [[nodiscard]] bool flag(const char* key, bool fallback) const { return config_.boolean_or(key, fallback); }

 private:
  inline static const std::string kSource = "config.json";
  JsonField config_;
};

// Experts one by one (the files of transformers 4), or all in one tensor (how 5 keeps them).
void expert_parts(const std::string& ours, std::int64_t experts, std::int64_t ffn, std::int64_t hidden,
                  const std::string& each, const char* gate, const char* up, const char* down, const std::string& fused,
                  const Present& present, Map& map) {
  const bool is_fused = present && present(fused + "gate_up_proj");
  if (map.parts.size() + static_cast<std::size_t>(3 * experts) > kMostParts)
    throw UsageError("config.json: its sizes make more than {} tensors", kMostParts);
  for (std::int64_t j = 0; j < experts; ++j) {
    const std::string to = fmt::format("{}experts.{}.", ours, j);
    if (is_fused) {
      const Extents both = {experts, 2 * ffn, hidden};
      const std::int64_t size = ffn * hidden;
      map.parts.push_back({to + "gate.weight", {ffn, hidden}, fused + "gate_up_proj", both, 2 * j * size, false, {}});
      map.parts.push_back(
          {to + "up.weight", {ffn, hidden}, fused + "gate_up_proj", both, (2 * j + 1) * size, false, {}});
      map.parts.push_back(
          {to + "down.weight", {hidden, ffn}, fused + "down_proj", {experts, hidden, ffn}, j * size, false, {}});
    } else {
      const std::string from = fmt::format("{}{}.", each, j);
      map.linear(to + "gate", ffn, hidden, from + gate, false);
      map.linear(to + "up", ffn, hidden, from + up, false);
      map.linear(to + "down", hidden, ffn, from + down, false);
    }
  }
}

void mixtral_parts(const HfModel& model, const Present& present, Map& map) {
  const MoeSizes size(model);
  const std::int64_t hidden = size("hidden_size"), heads = size("num_attention_heads");
  const std::int64_t head = size.get("head_dim", hidden / heads), kv = size.get("num_key_value_heads", heads);
  const std::int64_t experts = size("num_local_experts"), ffn = size("intermediate_size"), vocab = size("vocab_size");
  map.same("embedding.word_embeddings.weight", {vocab, hidden}, "model.embed_tokens.weight");
  for (std::int64_t i = 0; i < size("num_hidden_layers"); ++i) {
    const std::string ours = fmt::format("layers.{}.", i), theirs = fmt::format("model.layers.{}.", i);
    map.norm(ours + "input_norm", hidden, theirs + "input_layernorm", false);
    map.linear(ours + "self_attention.query", heads * head, hidden, theirs + "self_attn.q_proj", false);
    map.linear(ours + "self_attention.key", kv * head, hidden, theirs + "self_attn.k_proj", false);
    map.linear(ours + "self_attention.value", kv * head, hidden, theirs + "self_attn.v_proj", false);
    map.linear(ours + "self_attention.proj", hidden, heads * head, theirs + "self_attn.o_proj", false);
    map.norm(ours + "pre_mlp_norm", hidden, theirs + "post_attention_layernorm", false);
    const std::string old = theirs + "block_sparse_moe.", fused = theirs + "mlp.";
    const bool is_new = present && !present(old + "gate.weight");
    map.linear(ours + "mlp.router", experts, hidden, (is_new ? fused : old) + "gate", false);
    expert_parts(ours + "mlp.", experts, ffn, hidden, old + "experts.", "w1", "w3", "w2", fused + "experts.", present,
                 map);
  }
  map.norm("final_norm", hidden, "model.norm", false);
  if (!size.flag("tie_word_embeddings", false)) map.same("output.weight", {vocab, hidden}, "lm_head.weight");
}

void deepseek_parts(const HfModel& model, const Present& present, Map& map) {
  const MoeSizes size(model);
  const bool v3 = model.architecture == "DeepseekV3ForCausalLM";
  const std::int64_t hidden = size("hidden_size"), heads = size("num_attention_heads"), vocab = size("vocab_size");
  const std::int64_t query_rank = size.get("q_lora_rank", 0), kv_rank = size("kv_lora_rank");
  const std::int64_t nope = size("qk_nope_head_dim"), rope = size("qk_rope_head_dim"), value = size("v_head_dim");
  const std::int64_t experts = size.get("n_routed_experts", 0), dense_first = size.get("first_k_dense_replace", 0);
  // Their rotary rows are pairs; ours are halves.
  if (rope % 2 != 0) throw UsageError("config.json: qk_rope_head_dim must be even");
  std::optional<RotaryRows> query_rotary = RotaryRows{nope + rope, nope, rope};
  std::optional<RotaryRows> key_rotary = RotaryRows{kv_rank + rope, kv_rank, rope};
  if (v3 && !size.flag("rope_interleave", true)) query_rotary = key_rotary = std::nullopt;
  map.same("embedding.word_embeddings.weight", {vocab, hidden}, "model.embed_tokens.weight");
  for (std::int64_t i = 0; i < size("num_hidden_layers"); ++i) {
    const std::string ours = fmt::format("layers.{}.", i), theirs = fmt::format("model.layers.{}.", i);
    const std::string attention = ours + "self_attention.", their_attention = theirs + "self_attn.";
    map.norm(ours + "input_norm", hidden, theirs + "input_layernorm", false);
    const Extents query_up = {heads * (nope + rope), query_rank > 0 ? query_rank : hidden};
    if (query_rank > 0) {
      map.linear(attention + "query_down", query_rank, hidden, their_attention + "q_a_proj", false);
      map.norm(attention + "query_down_norm", query_rank, their_attention + "q_a_layernorm", false);
      map.same(attention + "query_up.weight", query_up, their_attention + "q_b_proj.weight", query_rotary);
    } else {
      map.same(attention + "query.weight", query_up, their_attention + "q_proj.weight", query_rotary);
    }
    map.same(attention + "kv_down.weight", {kv_rank + rope, hidden}, their_attention + "kv_a_proj_with_mqa.weight",
             key_rotary);
    map.norm(attention + "kv_down_norm", kv_rank, their_attention + "kv_a_layernorm", false);
    map.linear(attention + "kv_up", heads * (nope + value), kv_rank, their_attention + "kv_b_proj", false);
    map.linear(attention + "proj", hidden, heads * value, their_attention + "o_proj", false);
    map.norm(ours + "pre_mlp_norm", hidden, theirs + "post_attention_layernorm", false);
    const auto mlp = [&](const std::string& to, std::int64_t ffn, const std::string& from) {
      map.linear(to + "gate", ffn, hidden, from + "gate_proj", false);
      map.linear(to + "up", ffn, hidden, from + "up_proj", false);
      map.linear(to + "down", hidden, ffn, from + "down_proj", false);
    };
    if (experts == 0 || i < dense_first || i % size.get("moe_layer_freq", 1) != 0) {
      mlp(ours + "mlp.", size("intermediate_size"), theirs + "mlp.");
      continue;
    }
    const std::int64_t ffn = size("moe_intermediate_size"), shared = size.get("n_shared_experts", 0);
    map.linear(ours + "mlp.router", experts, hidden, theirs + "mlp.gate", false);
    if (v3) map.same(ours + "mlp.router.expert_bias", {experts}, theirs + "mlp.gate.e_score_correction_bias");
    const std::string list = theirs + "mlp.experts.";
    expert_parts(ours + "mlp.", experts, ffn, hidden, list, "gate_proj", "up_proj", "down_proj", list, present, map);
    if (shared > 0) mlp(ours + "mlp.shared_experts.", ffn * shared, theirs + "mlp.shared_experts.");
  }
  map.norm("final_norm", hidden, "model.norm", false);
  if (!size.flag("tie_word_embeddings", false)) map.same("output.weight", {vocab, hidden}, "lm_head.weight");
}

}  // namespace

std::int64_t rotary_source_row(const RotaryRows& rotary, std::int64_t row) {
  const std::int64_t within = row % rotary.head - rotary.first;
  if (within < 0 || within >= rotary.count) return row;
  const std::int64_t half = rotary.count / 2;
  // Member j of the first half is the first of pair j, of the second half the second.
  return row - within + (within < half ? 2 * within : 2 * (within - half) + 1);
}

std::vector<HfPart> hf_parts(const HfModel& model, const Present& present) {
  Map map;
  if (model.architecture == "GPT2LMHeadModel") {
    gpt2_parts(*model.spec, present, map);
  } else if (model.spec) {
    llama_parts(*model.spec, map);
  } else if (model.architecture == "MixtralForCausalLM") {
    mixtral_parts(model, present, map);
  } else {
    deepseek_parts(model, present, map);
  }
  return std::move(map.parts);
}

bool hf_ignored(const HfModel& model, const std::string& theirs) {
  static const std::regex kTables(R"((.*\.)?(rotary_emb\.inv_freq|attn\.bias|attn\.masked_bias))");
  static const std::regex kLayer(R"(model\.layers\.(\d{1,9})\..*)");
  if (std::regex_match(theirs, kTables)) return true;
  std::smatch match;
  if (!model.spec && model.architecture.starts_with("Deepseek") && std::regex_match(theirs, match, kLayer))
    return std::stoll(match[1]) >= MoeSizes(model)("num_hidden_layers");
  return false;
}

}  // namespace railyard
