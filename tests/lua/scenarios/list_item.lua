--@ unbuilt:
--@ error: 7: data.train[2].wieght: unknown key; did you mean weight?
local models = require "railyard.models"
return job {
  model = models.tiny_llama { vocab = 65 },
  data = { train = { { path = "a", weight = 1 },
 { path = "b", wieght = 2 } }, tokenizer = { type = "char" } },
  train = { iterations = 10, global_batch = 4, lr = { peak = 1e-3 } },
}
