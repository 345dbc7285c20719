--@ error: 4: name: names the run directory runs/NAME: letters, digits, '-', '_' and '.', at most 128 of them, not '.' first
local models = require "railyard.models"
return job {
  name = "../../etc",
  model = models.tiny_llama { vocab = 65 },
  data = { text = "corpus.txt", tokenizer = { type = "char" } },
  train = { iterations = 10, global_batch = 4, lr = { peak = 1e-3 } },
}
