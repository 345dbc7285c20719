--@ error: 6: train.iterations: must be between 1 and 1e+15, got 0
local models = require "railyard.models"
return job {
  model = models.tiny_llama { vocab = 65 },
  data = { text = "corpus.txt", tokenizer = { type = "char" } },
  train = { iterations = 0, global_batch = 4, lr = { peak = 1e-3 } },
}
