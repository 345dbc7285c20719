--@ error: 4: profile: has a key that is a boolean
local models = require "railyard.models"
return job {
  profile = { [true] = 1 },
  model = models.tiny_llama { vocab = 65 },
  data = { text = "corpus.txt", tokenizer = { type = "char" } },
  train = { iterations = 10, global_batch = 4, lr = { peak = 1e-3 } },
}
