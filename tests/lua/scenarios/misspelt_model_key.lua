--@ error: 4: model.seq_lenght: unknown key; did you mean seq_length?
local models = require "railyard.models"
return job {
  model = models.tiny_llama { vocab = 65, seq_lenght = 5 },
  data = { text = "corpus.txt", tokenizer = { type = "char" } },
  train = { iterations = 10, global_batch = 4, lr = { peak = 1e-3 } },
}
