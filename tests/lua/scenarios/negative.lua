--@ error: 6: train.lr.peak: must be above 0 and at most 1000, got -1
local models = require "railyard.models"
return job {
  model = models.tiny_llama { vocab = 65 },
  data = { text = "corpus.txt", tokenizer = { type = "char" } },
  train = { iterations = 10, global_batch = 4, lr = { peak = -1 } },
}
