--@ json: {"model": {"ffn": 1024, "kv_heads": 8, "head_dim": 32, "norm": "layernorm", "activation": "gelu", "vocab_divisible_by": 128, "scaled_init": true}}
local models = require "railyard.models"
return job {
  model = models.transformer { layers = 2, hidden = 256, heads = 8, seq_length = 32, vocab = 65 },
  data = { text = "corpus.txt", tokenizer = { type = "char" } },
  train = { iterations = 10, global_batch = 4, lr = { peak = 1e-3 } },
}
