#!/usr/bin/env railyard
# SBATCH --nodes=2
#sbatch -N 2
--@ warning: 2: sbatch does not read "# SBATCH"; the line must begin with "#SBATCH "
--@ warning: 3: sbatch does not read "#sbatch"; the line must begin with "#SBATCH "
local models = require "railyard.models"
return job {
  model = models.tiny_llama { vocab = 65 },
  data = { text = "corpus.txt", tokenizer = { type = "char" } },
  train = { iterations = 10, global_batch = 4, lr = { peak = 1e-3 } },
}
