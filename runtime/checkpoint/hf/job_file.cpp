// A job.lua that trains on from imported weights.
#include <fmt/format.h>

#include "runtime/checkpoint/hf/model.hpp"

namespace railyard {
namespace {

// A Lua string in double quotes.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 32 || byte == 127) {
      out += fmt::format("\\{:03}", byte);
    } else {
      out += c;
    }
  }
  return out + "\"";
}

}  // namespace

std::string job_file_text(const std::string& name, const ModelSpec& model, const std::string& checkpoint,
                          const std::string& tokenizer) {
  std::string keys;
  const auto add = [&](const std::string& key, const std::string& value) {
    keys += fmt::format("    {} = {},\n", key, value);
  };
  add("layers", fmt::to_string(model.layers));
  add("hidden", fmt::to_string(model.hidden));
  add("heads", fmt::to_string(model.heads));
  if (model.kv_heads != model.heads) add("kv_heads", fmt::to_string(model.kv_heads));
  if (model.head_dim * model.heads != model.hidden) add("head_dim", fmt::to_string(model.head_dim));
  add("ffn", fmt::to_string(model.ffn));
  add("vocab", fmt::to_string(model.vocab));
  add("seq_length", fmt::to_string(model.seq_length));
  if (model.max_positions != model.seq_length) add("max_positions", fmt::to_string(model.max_positions));
  add("norm", quoted(model.norm));
  add("norm_eps", fmt::to_string(model.norm_eps));
  add("activation", quoted(model.activation));
  add("position", quoted(model.position));
  if (model.position == "rope") add("rope_theta", fmt::to_string(model.rope_theta));
  if (model.rotary_percent != 1.0) add("rotary_percent", fmt::to_string(model.rotary_percent));
  if (model.rope_scaling) {
    const RopeScaling& scaling = *model.rope_scaling;
    std::string value = fmt::format("{{ type = {}, factor = {}", quoted(scaling.type), scaling.factor);
    if (scaling.type == "llama3")
      value += fmt::format(", low_freq_factor = {}, high_freq_factor = {}, original_max_positions = {}",
                           scaling.low_freq_factor, scaling.high_freq_factor, scaling.original_max_positions);
    add("rope_scaling", value + " }");
  }
  if (model.bias) add("bias", "true");
  if (model.qkv_bias) add("qkv_bias", "true");
  if (model.qk_norm) add("qk_norm", "true");
  if (model.window > 0) add("window", fmt::to_string(model.window));
  if (model.tied_embeddings) add("tied_embeddings", "true");
  if (model.attention_dropout > 0) add("attention_dropout", fmt::to_string(model.attention_dropout));
  if (model.hidden_dropout > 0) add("hidden_dropout", fmt::to_string(model.hidden_dropout));
  add("init_std", fmt::to_string(model.init_std));
  const std::string tokens =
      tokenizer.empty() ? "" : fmt::format(", tokenizer = {{ type = \"huggingface\", path = {} }}", quoted(tokenizer));
  return fmt::format(R"(#!/usr/bin/env railyard
-- Trains on from imported weights. Name your data, then choose the steps and the rate.
local models = require "railyard.models"

return job {{
  name = {0},
  model = models.transformer {{
{1}  }},
  data = {{ text = "corpus.txt"{2} }},  -- or train = {{ {{ path = "PREFIX of .bin/.idx" }} }}
  train = {{
    iterations = 1000, micro_batch = 1, global_batch = 8, precision = "bf16",
    lr = {{ schedule = "cosine", peak = 1e-5, min = 1e-6, warmup = 100 }},
  }},
  checkpoint = {{ every = 100, init_from = {{ path = {3}, weights_only = true }} }},
}}
)",
                     quoted(name), keys, tokens, quoted(checkpoint));
}

}  // namespace railyard
