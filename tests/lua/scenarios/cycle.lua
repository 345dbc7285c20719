--@ error: 8: train.lr.lr: is a table that contains itself
local models = require "railyard.models"
local j =  {
  model = models.tiny_llama { vocab = 65 },
  data = { text = "corpus.txt", tokenizer = { type = "char" } },
  train = { iterations = 10, global_batch = 4, lr = { peak = 1e-3 } },
}
j.train.lr.lr = j.train.lr
return job(j)
