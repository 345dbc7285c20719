--@ error: 4: run.setenv.A=B: is no name of an environment variable
local models = require "railyard.models"
return job {
  run = { setenv = { ["A=B"] = "x" } },
  model = models.tiny_llama { vocab = 65 },
  data = { text = "corpus.txt", tokenizer = { type = "char" } },
  train = { iterations = 10, global_batch = 4, lr = { peak = 1e-3 } },
}
