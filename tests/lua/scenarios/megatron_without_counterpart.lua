--@ error: 6: train.use_flash_attn: unknown key; Megatron's --use-flash-attn has no counterpart here: always so
local models = require "railyard.models"
return job {
  model = models.tiny_llama { vocab = 65 },
  data = { text = "corpus.txt", tokenizer = { type = "char" } },
  train = { iterations = 10, global_batch = 4, use_flash_attn = true, lr = { peak = 1e-3 } },
}
