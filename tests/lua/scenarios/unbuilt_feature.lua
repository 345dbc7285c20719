--@ error: 4: parallel.ep: 2 (expert parallel ranks) is not built yet; leave it at 1
local models = require "railyard.models"
return job {
  parallel = { ep = 2 },
  model = models.tiny_llama { vocab = 65 },
  data = { text = "corpus.txt", tokenizer = { type = "char" } },
  train = { iterations = 10, global_batch = 4, lr = { peak = 1e-3 } },
}
