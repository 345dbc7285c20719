--@ error: 5: model.moe: mixture of experts: not built yet; leave it out
local models = require "railyard.models"
return job {

  model = models.mixtral_8x7b(),
  data = { text = "corpus.txt", tokenizer = { type = "char" } },
  train = { iterations = 10, global_batch = 4, lr = { peak = 1e-3 } },
}
