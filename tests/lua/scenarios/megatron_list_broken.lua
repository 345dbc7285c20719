--@ error: 5: data.train: expected weights and prefixes in turn, got "many"
local models = require "railyard.models"
return job {
  model = models.tiny_llama { vocab = 65 },
  data = { train = { 0.3, "web", "many", "code" } },
  train = { iterations = 10, global_batch = 4, lr = { peak = 1e-3 } },
}
