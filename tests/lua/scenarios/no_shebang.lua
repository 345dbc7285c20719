#SBATCH --nodes=2
--@ warning: 1: has #SBATCH lines but does not begin with #!, which sbatch asks for; begin with #!/usr/bin/env railyard
local models = require "railyard.models"
return job {
  model = models.tiny_llama { vocab = 65 },
  data = { text = "corpus.txt", tokenizer = { type = "char" } },
  train = { iterations = 10, global_batch = 4, lr = { peak = 1e-3 } },
}
