--@ error: .*cut_off_checkpoint/ckpt.*
--@ before: railyard run cut_off_checkpoint.lua --ranks 4 --run-dir cut_off_checkpoint && truncate -s 100 cut_off_checkpoint/ckpt/step-2/MANIFEST.json
--@ options: --ranks 4 --set train.iterations=4
local models = require "railyard.models"
return job {
  name = "bad",
  model = models.tiny_llama { layers = 2, hidden = 32, heads = 4, kv_heads = 4, ffn = 64, seq_length = 32 },
  data = { text = "corpus.txt", tokenizer = { type = "char" } },
  parallel = { tp = 2, dp = 2 },
  train = { iterations = 2, micro_batch = 1, global_batch = 8, lr = { schedule = "constant", peak = 1e-3 } },
  run = { device = "cpu" },
}
