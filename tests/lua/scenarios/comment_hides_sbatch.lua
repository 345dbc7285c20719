#!/usr/bin/env railyard
--@ warning: 3: this #SBATCH line is hidden from sbatch, which stops reading at line 2; move the #SBATCH lines above everything but the #! line
#SBATCH --nodes=2
local models = require "railyard.models"
return job {
  model = models.tiny_llama { vocab = 65 },
  data = { text = "corpus.txt", tokenizer = { type = "char" } },
  train = { iterations = 10, global_batch = 4, lr = { peak = 1e-3 } },
}
