--@ error: 3: evil\x1b[31m: unknown key
local models = require "railyard.models"
return job {
  ["evil\27[31m"] = 1,
  model = models.tiny_llama { vocab = 65 },
  data = { text = "corpus.txt", tokenizer = { type = "char" } },
  train = { iterations = 10, global_batch = 4, lr = { peak = 1e-3 } },
}
