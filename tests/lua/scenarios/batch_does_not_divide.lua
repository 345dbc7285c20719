--@ error: 6: train.global_batch: micro_batch 3 does not divide global_batch 4
local models = require "railyard.models"
return job {
  model = models.tiny_llama { vocab = 65 },
  data = { text = "corpus.txt", tokenizer = { type = "char" } },
  train = { iterations = 10, global_batch = 4, micro_batch = 3, lr = { peak = 1e-3 } },
}
