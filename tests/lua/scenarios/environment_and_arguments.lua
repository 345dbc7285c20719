--@ env: CORPUS=from-env.txt
--@ arg: 7
--@ json: {"data": {"text": "from-env.txt"}, "train": {"seed": 7}}
local models = require "railyard.models"
return job {
  model = models.tiny_llama { vocab = 65 },
  data = { text = env.CORPUS or "none", tokenizer = { type = "char" } },
  train = { iterations = 10, seed = tonumber(arg[1]), micro_batch = env.MISSING and 2 or 1, global_batch = 4, lr = { peak = 1e-3 } },
}
