--@ error: 6: train.lr.warmup: 10 steps of warm-up leave nothing of the 10 steps of the schedule
local models = require "railyard.models"
return job {
  model = models.tiny_llama { vocab = 65 },
  data = { text = "corpus.txt", tokenizer = { type = "char" } },
  train = { iterations = 10, global_batch = 4, lr = { peak = 1e-3, warmup = 10 } },
}
