--@ error: 4: nothing is called modles here; did you mean models?
local models = require "railyard.models"
return job {
  model = modles.tiny_llama { vocab = 65 },
  data = { text = "corpus.txt", tokenizer = { type = "char" } },
  train = { iterations = 10, global_batch = 4, lr = { peak = 1e-3 } },
}
