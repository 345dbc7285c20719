--@ error: 5: parallel.tp: tp 8 does not divide model.heads 4
--@ error: 5: parallel.tp: tp 8 does not divide model.kv_heads 2
local models = require "railyard.models"
return job {
  parallel = { tp = 8 },
  model = models.tiny_llama { vocab = 65 },
  data = { text = "corpus.txt", tokenizer = { type = "char" } },
  train = { iterations = 10, global_batch = 4, lr = { peak = 1e-3 } },
}
