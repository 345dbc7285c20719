--@ error: 5: model.seq_length: 128 is longer than the learned positions; raise model.max_positions (64)
local models = require "railyard.models"
return job {

  model = models.tiny_gpt { seq_length = 128 },
  data = { text = "corpus.txt", tokenizer = { type = "char" } },
  train = { iterations = 10, global_batch = 4, lr = { peak = 1e-3 } },
}
