--@ json: {"train": {"iterations": 250000}}
local models = require "railyard.models"
local units = require "railyard.units"
return job {
  model = models.tiny_llama { vocab = 65 },
  data = { text = "corpus.txt", tokenizer = { type = "char" } },
  train = { samples = 1 * units.M, global_batch = 4, lr = { peak = 1e-3 } },
}
