--@ json: {"data": {"tokenizer": {"type": "char", "path": ""}}, "run": {"timeout": 600.0, "threads": 0}}
local models = require "railyard.models"
return job {
  run = { timeout = "10 min", threads = "auto", setenv = { OMP_NUM_THREADS = 1 } },
  model = models.tiny_llama { vocab = 65 },
  data = { text = "corpus.txt", tokenizer = "char" },
  train = { iterations = 10, global_batch = 4, lr = { peak = 1e-3 } },
}
