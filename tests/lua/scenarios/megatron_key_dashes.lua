--@ error: 4: parallel.tensor-model-parallel-size: unknown key; Megatron's --tensor-model-parallel-size is parallel.tp here
local models = require "railyard.models"
return job {
  parallel = { ["tensor-model-parallel-size"] = 2 },
  model = models.tiny_llama { vocab = 65 },
  data = { text = "corpus.txt", tokenizer = { type = "char" } },
  train = { iterations = 10, global_batch = 4, lr = { peak = 1e-3 } },
}
