-- A small job whose layout the cases of assign/ set.
local models = require "railyard.models"
return job {
  name = "assign",
  model = models.transformer { layers = 16, hidden = 1024, heads = 16, vocab = 32000, seq_length = 512 },
  data = { mock = true },
  train = { iterations = 1, micro_batch = 1, global_batch = 480, precision = "bf16", lr = { peak = 1e-3 } },
}
