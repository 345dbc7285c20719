--@ error: 7: data.tokeniser: unknown key; did you mean tokenizer?
--@ error: 8: train.iterations: must be between 1 and 1e+15, got -3
--@ error: 8: train.lr.peak: expected a number, got "x"
local models = require "railyard.models"
return job {
  model = models.tiny_llama { vocab = 65 },
  data = { text = "corpus.txt", tokeniser = { type = "char" } },
  train = { iterations = -3, global_batch = 4, lr = { peak = "x" } },
}
