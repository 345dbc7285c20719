--@ error: 4: unexpected symbol near '#'
local models = require "railyard.models"
local x = 1
#SBATCH --nodes=2
return job {
  model = models.tiny_llama { vocab = 65 },
  data = { text = "corpus.txt", tokenizer = { type = "char" } },
  train = { iterations = 10, global_batch = 4, lr = { peak = 1e-3 } },
}
