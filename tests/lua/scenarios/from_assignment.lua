--@ error: 9: train.iterations: expected an integer, got "many"
local models = require "railyard.models"
local t = {
  global_batch = 4,
  lr = { peak = 1e-3 },
}

t.lr.min = 0
t.iterations = "many"
return job {
  model = models.tiny_llama { vocab = 65 },
  data = { text = "corpus.txt", tokenizer = { type = "char" } },
  train = t,
}
