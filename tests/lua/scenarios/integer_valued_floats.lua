--@ json: {"train": {"iterations": 1000, "global_batch": 8}}
local models = require "railyard.models"
return job {
  model = models.tiny_llama { vocab = 65 },
  data = { text = "corpus.txt", tokenizer = { type = "char" } },
  train = { iterations = 1e3, global_batch = 2^3, lr = { peak = 1e-3 } },
}
