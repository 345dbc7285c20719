--@ error: 6: train.iterations: expected an integer, got a function
local models = require "railyard.models"
return job {
  model = models.tiny_llama { vocab = 65 },
  data = { text = "corpus.txt", tokenizer = { type = "char" } },
  train = { iterations = function() return 10 end, global_batch = 4, lr = { peak = 1e-3 } },
}
