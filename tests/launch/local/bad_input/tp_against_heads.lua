--@ error: .*tp_against_heads\.lua:7: parallel\.tp: tp 4 does not divide model\.heads 6
local models = require "railyard.models"
return job {
  name = "bad",
  model = models.tiny_llama { layers = 2, hidden = 32, heads = 6, kv_heads = 6, head_dim = 8, ffn = 64, seq_length = 32 },
  data = { text = "corpus.txt", tokenizer = { type = "char" } },
  parallel = { tp = 4 },
  train = { iterations = 2, micro_batch = 1, global_batch = 8, lr = { schedule = "constant", peak = 1e-3 } },
  run = { device = "cpu" },
}
