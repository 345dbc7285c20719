--@ error: 4: parallel: expected a table or "auto", got 8
local models = require "railyard.models"
return job {
  parallel = 8,
  model = models.tiny_llama { vocab = 65 },
  data = { text = "corpus.txt", tokenizer = { type = "char" } },
  train = { iterations = 10, global_batch = 4, lr = { peak = 1e-3 } },
}
