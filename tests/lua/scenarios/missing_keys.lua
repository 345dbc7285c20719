--@ error: 8: model.layers: missing; it must be given: number of layers
--@ error: 8: model.hidden: missing; it must be given: width of the residual stream
--@ error: 8: model.heads: missing; it must be given: attention heads
--@ error: 8: model.seq_length: missing; it must be given: tokens of a sample
local models = require "railyard.models"
return job {

  model = models.transformer { vocab = 65 },
  data = { text = "corpus.txt", tokenizer = { type = "char" } },
  train = { iterations = 10, global_batch = 4, lr = { peak = 1e-3 } },
}
