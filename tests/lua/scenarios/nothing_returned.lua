--@ error: 3: the table of job is made but not returned; write `return job { ... }`
local models = require "railyard.models"
local j = job {
  model = models.tiny_llama { vocab = 65 },
  data = { text = "corpus.txt", tokenizer = { type = "char" } },
  train = { iterations = 10, global_batch = 4, lr = { peak = 1e-3 } },
}
