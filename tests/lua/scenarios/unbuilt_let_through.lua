--@ unbuilt:
--@ json: {"parallel": {"ep": 1, "cp": 2}, "train": {"precision": "fp8", "recompute": {"granularity": "selective"}}}
local models = require "railyard.models"
return job {
  parallel = { cp = 2 },
  model = models.tiny_llama { vocab = 65 },
  data = { text = "corpus.txt", tokenizer = { type = "char" } },
  train = { iterations = 10, precision = "fp8", recompute = "selective", global_batch = 4, lr = { peak = 1e-3 } },
}
