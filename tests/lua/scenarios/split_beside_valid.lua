--@ error: 5: data.split: cannot go with data.valid or data.test, which name the splits' files themselves
local models = require "railyard.models"
return job {
  model = models.tiny_llama { vocab = 65 },
  data = { train = "web", valid = "held_out", split = "90,10" },
  train = { iterations = 10, global_batch = 4, lr = { peak = 1e-3 } },
}
