--@ error: 6: train.lr.schedule: must be "cosine", "linear", "constant", "wsd" or "inverse_sqrt", got "cosin"; did you mean "cosine"?
local models = require "railyard.models"
return job {
  model = models.tiny_llama { vocab = 65 },
  data = { text = "corpus.txt", tokenizer = { type = "char" } },
  train = { iterations = 10, global_batch = 4, lr = { peak = 1e-3, schedule = "cosin" } },
}
