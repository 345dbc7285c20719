--@ set: parallel.tp=2
--@ json: {"parallel": {"tp": 2, "automatic": false}}
local models = require "railyard.models"
return job {
  parallel = "auto",
  model = models.tiny_llama { vocab = 65 },
  data = { text = "corpus.txt", tokenizer = { type = "char" } },
  train = { iterations = 10, global_batch = 4, lr = { peak = 1e-3 } },
}
