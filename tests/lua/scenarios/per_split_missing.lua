--@ error: 5: data.per_split: no-such-file.json: cannot read: No such file or directory
local models = require "railyard.models"
return job {
  model = models.tiny_llama { vocab = 65 },
  data = { per_split = "no-such-file.json" },
  train = { iterations = 10, global_batch = 4, lr = { peak = 1e-3 } },
}
