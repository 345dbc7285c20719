--@ json: {"train": {"iterations": 25, "lr": {"decay_iterations": 25}}}
local models = require "railyard.models"
return job {
  model = models.tiny_llama { vocab = 65 },
  data = { text = "corpus.txt", tokenizer = { type = "char" } },
  train = { samples = 100, global_batch = 4, lr = { peak = 1e-3 } },
}
