--@ error: 6: train.lr.peak: expected a finite number, got not a number (0/0)
local models = require "railyard.models"
return job {
  model = models.tiny_llama { vocab = 65 },
  data = { text = "corpus.txt", tokenizer = { type = "char" } },
  train = { iterations = 10, global_batch = 4, lr = { peak = 0/0 } },
}
