--@ json: {"data": {"train": [{"path": "web", "weight": 0.3}, {"path": "code", "weight": 0.7}], "split": ""}}
--@ json: {"data": {"valid": [{"path": "held_out", "weight": null}, {"path": "books", "weight": null}, {"path": "news", "weight": null}]}}
local models = require "railyard.models"
return job {
  model = models.tiny_llama { vocab = 65 },
  data = { train = { 0.3, "web", "0.7", "code" }, valid = { "held_out", "books", "news" } },
  train = { iterations = 10, global_batch = 4, lr = { peak = 1e-3 } },
}
