--@ error: 5: model.kv_heads: kv_heads 3 does not divide heads 4
local models = require "railyard.models"
return job {

  model = models.tiny_llama { vocab = 65, kv_heads = 3 },
  data = { text = "corpus.txt", tokenizer = { type = "char" } },
  train = { iterations = 10, global_batch = 4, lr = { peak = 1e-3 } },
}
