--@ error: .*none\.txt
local models = require "railyard.models"
return job {
  name = "bad",
  model = models.tiny_llama { layers = 2, hidden = 32, heads = 4, kv_heads = 4, ffn = 64, seq_length = 32 },
  data = { text = "none.txt", tokenizer = { type = "char" } },
  parallel = { tp = 2, dp = 2 },
  train = { iterations = 2, micro_batch = 1, global_batch = 8, lr = { schedule = "constant", peak = 1e-3 } },
  run = { device = "cpu" },
}
