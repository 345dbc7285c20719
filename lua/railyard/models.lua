-- Models by name. `models.transformer { ... }` takes every key of the job's `model` table; each preset is a call of it
-- that a table of changes may follow: models.llama3_8b { seq_length = 4096 }. Sizes are those that the models' makers
-- published (their papers, or the configuration files beside their weights).

local models = {}

function models.transformer(keys)
  if type(keys) ~= "table" then error("models.transformer takes one table of keys", 2) end
  local copy = {}
  for key, value in next, keys do copy[key] = value end
  return copy
end

-- A model that starts from `keys`, of which a job may change any.
local function preset(name, keys)
  models[name] = function(changes)
    if changes ~= nil and type(changes) ~= "table" then error("models." .. name .. " takes one table of changes", 2) end
    local result = models.transformer(keys)
    for key, value in next, changes or {} do result[key] = value end
    return result
  end
end

-- `keys` with those of `more` laid over them.
local function with(keys, more)
  local result = models.transformer(keys)
  for key, value in next, more do result[key] = value end
  return result
end

-- GPT-2: learned positions, biases everywhere, GELU by its tanh form, tied head.
local gpt2 = {
  vocab = 50257, seq_length = 1024, max_positions = 1024, norm = "layernorm", norm_eps = 1e-5, activation = "gelu_tanh",
  position = "learned", bias = true, tied_embeddings = true, attention_dropout = 0.1, hidden_dropout = 0.1,
}
preset("tiny_gpt", with(gpt2, { layers = 4, hidden = 128, heads = 4, ffn = 512, vocab = "auto", seq_length = 64, max_positions = 64 }))
preset("gpt2_124m", with(gpt2, { layers = 12, hidden = 768, heads = 12, ffn = 3072 }))
preset("gpt2_355m", with(gpt2, { layers = 24, hidden = 1024, heads = 16, ffn = 4096 }))
preset("gpt2_774m", with(gpt2, { layers = 36, hidden = 1280, heads = 20, ffn = 5120 }))
preset("gpt2_1558m", with(gpt2, { layers = 48, hidden = 1600, heads = 25, ffn = 6400 }))
preset("gpt3_175b", with(gpt2, { layers = 96, hidden = 12288, heads = 96, ffn = 49152, seq_length = 2048, max_positions = 2048 }))

-- Llama: RMSNorm, rotary positions, SwiGLU, no biases, untied head.
local llama = { norm = "rmsnorm", norm_eps = 1e-5, activation = "swiglu", position = "rope", bias = false, tied_embeddings = false }
preset("tiny_llama", with(llama, { layers = 4, hidden = 128, heads = 4, kv_heads = 2, ffn = 384, vocab = "auto", seq_length = 64 }))

local llama2 = with(llama, { vocab = 32000, seq_length = 4096, rope_theta = 10000 })
preset("llama2_7b", with(llama2, { layers = 32, hidden = 4096, heads = 32, ffn = 11008 }))
preset("llama2_13b", with(llama2, { layers = 40, hidden = 5120, heads = 40, ffn = 13824 }))
preset("llama2_70b", with(llama2, { layers = 80, hidden = 8192, heads = 64, kv_heads = 8, ffn = 28672 }))

local llama3 = with(llama, { vocab = 128256, seq_length = 8192, rope_theta = 500000 })
local sizes = {
  ["8b"] = { layers = 32, hidden = 4096, heads = 32, kv_heads = 8, ffn = 14336 },
  ["70b"] = { layers = 80, hidden = 8192, heads = 64, kv_heads = 8, ffn = 28672 },
  ["405b"] = { layers = 126, hidden = 16384, heads = 128, kv_heads = 8, ffn = 53248 },
}
local function llama3_scaling(factor)
  return { type = "llama3", factor = factor, low_freq_factor = 1, high_freq_factor = 4, original_max_positions = 8192 }
end
for size, keys in next, sizes do
  preset("llama3_" .. size, with(llama3, keys))
  preset("llama3_1_" .. size, with(with(llama3, keys), { max_positions = 131072, rope_scaling = llama3_scaling(8) }))
end
local llama3_2 = with(llama3, { tied_embeddings = true, max_positions = 131072, rope_scaling = llama3_scaling(32) })
preset("llama3_2_1b", with(llama3_2, { layers = 16, hidden = 2048, heads = 32, kv_heads = 8, ffn = 8192 }))
preset("llama3_2_3b", with(llama3_2, { layers = 28, hidden = 3072, heads = 24, kv_heads = 8, ffn = 8192 }))

-- Mistral 7B v0.1: Llama's layers with a sliding window.
preset("mistral_7b", with(llama, { layers = 32, hidden = 4096, heads = 32, kv_heads = 8, ffn = 14336, vocab = 32000, seq_length = 8192, rope_theta = 10000, window = 4096 }))

-- Nemotron-4: layernorm with weights stored less one, squared ReLU, half of each head rotated.
local nemotron4 = {
  vocab = 256000, seq_length = 4096, norm = "layernorm1p", norm_eps = 1e-5, activation = "squared_relu", position = "rope",
  rope_theta = 10000, rotary_percent = 0.5, bias = false, tied_embeddings = false, init_std = 0.0134,
}
preset("nemotron4_15b", with(nemotron4, { layers = 32, hidden = 6144, heads = 48, kv_heads = 8, ffn = 24576 }))
preset("nemotron4_340b", with(nemotron4, { layers = 96, hidden = 18432, heads = 96, kv_heads = 8, ffn = 73728 }))

-- Qwen 2.5: Llama's layers with biases on queries, keys and values.
local qwen2_5 = with(llama, { norm_eps = 1e-6, rope_theta = 1000000, qkv_bias = true, seq_length = 4096, vocab = 152064 })
local qwen2_5_small = { vocab = 151936, tied_embeddings = true }
preset("qwen2_5_0_5b", with(with(qwen2_5, qwen2_5_small), { layers = 24, hidden = 896, heads = 14, kv_heads = 2, ffn = 4864 }))
preset("qwen2_5_1_5b", with(with(qwen2_5, qwen2_5_small), { layers = 28, hidden = 1536, heads = 12, kv_heads = 2, ffn = 8960 }))
preset("qwen2_5_7b", with(qwen2_5, { layers = 28, hidden = 3584, heads = 28, kv_heads = 4, ffn = 18944 }))
preset("qwen2_5_14b", with(qwen2_5, { layers = 48, hidden = 5120, heads = 40, kv_heads = 8, ffn = 13824, norm_eps = 1e-5 }))
preset("qwen2_5_32b", with(qwen2_5, { layers = 64, hidden = 5120, heads = 40, kv_heads = 8, ffn = 27648, norm_eps = 1e-5 }))
preset("qwen2_5_72b", with(qwen2_5, { layers = 80, hidden = 8192, heads = 64, kv_heads = 8, ffn = 29568, norm_eps = 1e-5 }))

-- Qwen 3: RMSNorm of each head's queries and keys, heads of 128.
local qwen3 = with(llama, { norm_eps = 1e-6, rope_theta = 1000000, qk_norm = true, head_dim = 128, kv_heads = 8, seq_length = 4096, vocab = 151936 })
preset("qwen3_0_6b", with(qwen3, { layers = 28, hidden = 1024, heads = 16, ffn = 3072, tied_embeddings = true }))
preset("qwen3_1_7b", with(qwen3, { layers = 28, hidden = 2048, heads = 16, ffn = 6144, tied_embeddings = true }))
preset("qwen3_4b", with(qwen3, { layers = 36, hidden = 2560, heads = 32, ffn = 9728, tied_embeddings = true }))
preset("qwen3_8b", with(qwen3, { layers = 36, hidden = 4096, heads = 32, ffn = 12288 }))
preset("qwen3_14b", with(qwen3, { layers = 40, hidden = 5120, heads = 40, ffn = 17408 }))
preset("qwen3_32b", with(qwen3, { layers = 64, hidden = 5120, heads = 64, ffn = 25600 }))

-- Mixture of experts.
preset("mixtral_8x7b", with(llama, {
  layers = 32, hidden = 4096, heads = 32, kv_heads = 8, ffn = 14336, vocab = 32000, seq_length = 4096, rope_theta = 1000000,
  moe = { experts = 8, top_k = 2 },
}))
preset("deepseek_v3", with(llama, {
  layers = 61, hidden = 7168, heads = 128, ffn = 18432, vocab = 129280, seq_length = 4096, norm_eps = 1e-6,
  moe = { experts = 256, top_k = 8, ffn = 2048, shared_experts = 1, dense_layers = 3 },
  mla = { q_rank = 1536, kv_rank = 512, qk_nope_dim = 128, qk_rope_dim = 64, v_dim = 128 },
}))

return models
