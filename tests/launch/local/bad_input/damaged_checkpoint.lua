-- Every checkpoint is damaged: starting over would throw the run away.
--@ error: .*damaged_checkpoint/ckpt.*
--@ before: railyard run damaged_checkpoint.lua --ranks 4 --run-dir damaged_checkpoint && for f in damaged_checkpoint/ckpt/step-2/*.safetensors; do printf X | dd of=$f bs=1 seek=4000 conv=notrunc; done
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
