--@ error: 5: name: "a\xff\x00b" is not UTF-8 text
local models = require "railyard.models"
return job {
  model2 = nil,
  name = "a\xff\0b",
  model = models.tiny_llama { vocab = 65 },
  data = { text = "corpus.txt", tokenizer = { type = "char" } },
  train = { iterations = 10, global_batch = 4, lr = { peak = 1e-3 } },
}
