--@ json: {"train": {"iterations": 77}}
local common = require "modules.common"
local models = require "railyard.models"
return job {
  model = models.tiny_llama { vocab = 65 },
  data = { text = "corpus.txt", tokenizer = { type = "char" } },
  train = { iterations = common.iterations, global_batch = 4, lr = { peak = 1e-3 } },
}
