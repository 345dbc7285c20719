--@ error: 4: profile.ranks: has no item 2, but one at 3
local models = require "railyard.models"
return job {
  profile = { ranks = { 1, nil, 3 } },
  model = models.tiny_llama { vocab = 65 },
  data = { text = "corpus.txt", tokenizer = { type = "char" } },
  train = { iterations = 10, global_batch = 4, lr = { peak = 1e-3 } },
}
