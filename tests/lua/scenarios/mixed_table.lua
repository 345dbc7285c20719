--@ error: 6: train: mixes list items and named keys
local models = require "railyard.models"
return job {
  model = models.tiny_llama { vocab = 65 },
  data = { text = "corpus.txt", tokenizer = { type = "char" } },
  train = { 5, iterations = 10, global_batch = 4, lr = { peak = 1e-3 } },
}
