--@ error: 6: train.iterations: expected an integer, got 10.5
local models = require "railyard.models"
return job {
  model = models.tiny_llama { vocab = 65 },
  data = { text = "corpus.txt", tokenizer = { type = "char" } },
  train = { iterations = 10.5, global_batch = 4, lr = { peak = 1e-3 } },
}
