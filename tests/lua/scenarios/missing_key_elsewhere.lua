--@ error: 5: model.layers: missing; it must be given: number of layers
local models = require "railyard.models"
return job {
  -- `layers` stands elsewhere too, but what is missing is missing in the model
  model = models.transformer { hidden = 8, heads = 2, seq_length = 8, vocab = 65 },
  data = { text = "corpus.txt", tokenizer = { type = "char" } },
  train = { iterations = 10, global_batch = 4, lr = { peak = 1e-3 }, recompute = { layers = 0 } },
}
