--@ error: 4: train.lr.peek: unknown key; did you mean peak?
local models = require "railyard.models"
local lr = { schedule = "linear",
  peek = 1e-3 }
return job {
  model = models.tiny_llama { vocab = 65 },
  data = { text = "corpus.txt", tokenizer = { type = "char" } },
  train = { iterations = 10, global_batch = 4, lr = lr },
}
