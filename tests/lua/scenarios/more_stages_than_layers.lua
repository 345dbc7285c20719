--@ error: 4: parallel.pp: 8 stages need at least as many layers; model.layers is 4
local models = require "railyard.models"
return job {
  parallel = { pp = 8 },
  model = models.tiny_llama { vocab = 65 },
  data = { text = "corpus.txt", tokenizer = { type = "char" } },
  train = { iterations = 10, global_batch = 4, lr = { peak = 1e-3 } },
}
