--@ error: 4: parallel.order: "tp-dp" must name tp, cp, ep, dp and pp once each, like "tp-cp-ep-dp-pp"
local models = require "railyard.models"
return job {
  parallel = { order = "tp-dp" },
  model = models.tiny_llama { vocab = 65 },
  data = { text = "corpus.txt", tokenizer = { type = "char" } },
  train = { iterations = 10, global_batch = 4, lr = { peak = 1e-3 } },
}
