--@ error: 4: railyard.models has no llama3_8; did you mean llama3_8b?
local models = require "railyard.models"
return job {
  model = models.llama3_8 { vocab = 65 },
  data = { text = "corpus.txt", tokenizer = { type = "char" } },
  train = { iterations = 10, global_batch = 4, lr = { peak = 1e-3 } },
}
