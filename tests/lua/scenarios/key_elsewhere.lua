--@ error: 4: tp: unknown key; tp is a key of parallel: parallel.tp
local models = require "railyard.models"
return job {
  tp = 2,
  model = models.tiny_llama { vocab = 65 },
  data = { text = "corpus.txt", tokenizer = { type = "char" } },
  train = { iterations = 10, global_batch = 4, lr = { peak = 1e-3 } },
}
