#!/usr/bin/env railyard
#SBATCH --nodes=2
# a remark
--@ error: 9: train.iteratons: unknown key; did you mean iterations?
local models = require "railyard.models"
return job {
  model = models.tiny_llama { vocab = 65 },
  data = { text = "corpus.txt", tokenizer = { type = "char" } },
  train = { iteratons = 10, global_batch = 4, lr = { peak = 1e-3 } },
}
