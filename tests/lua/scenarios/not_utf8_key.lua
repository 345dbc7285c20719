--@ error: 4: run.setenv: has a key that is not UTF-8 text: "\xff"
local models = require "railyard.models"
return job {
  run = { setenv = { ["\xff"] = "x" } },
  model = models.tiny_llama { vocab = 65 },
  data = { text = "corpus.txt", tokenizer = { type = "char" } },
  train = { iterations = 10, global_batch = 4, lr = { peak = 1e-3 } },
}
