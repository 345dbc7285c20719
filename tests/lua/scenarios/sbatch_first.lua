#!/usr/bin/env railyard
#SBATCH --job-name=x --nodes=2
--@ json: {"name": "sbatch_first"}
local models = require "railyard.models"
return job {
  model = models.tiny_llama { vocab = 65 },
  data = { text = "corpus.txt", tokenizer = { type = "char" } },
  train = { iterations = 10, global_batch = 4, lr = { peak = 1e-3 } },
}
