--@ error: 6: train.iterations: expected an integer, got 1e+300
local models = require "railyard.models"
return job {
  model = models.tiny_llama { vocab = 65 },
  data = { text = "corpus.txt", tokenizer = { type = "char" } },
  train = { iterations = 1e300, global_batch = 4, lr = { peak = 1e-3 } },
}
