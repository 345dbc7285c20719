--@ unbuilt:
--@ error: 6: data: says more than one thing to train on; give one of text, train and mock
local models = require "railyard.models"
return job {
  model = models.tiny_llama { vocab = 65 },
  data = { mock = true, text = "corpus.txt", tokenizer = { type = "char" } },
  train = { iterations = 10, global_batch = 4, lr = { peak = 1e-3 } },
}
