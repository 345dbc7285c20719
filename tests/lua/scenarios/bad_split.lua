--@ error: 5: data.split: expected up to three shares like "969,30,1", got "90/10"
local models = require "railyard.models"
return job {
  model = models.tiny_llama { vocab = 65 },
  data = { split = "90/10", text = "corpus.txt", tokenizer = { type = "char" } },
  train = { iterations = 10, global_batch = 4, lr = { peak = 1e-3 } },
}
