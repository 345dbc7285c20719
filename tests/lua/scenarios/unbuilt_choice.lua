--@ error: 6: train.precision: "fp16" is not built yet; use "fp32", "bf16" or "fp8"
local models = require "railyard.models"
return job {
  model = models.tiny_llama { vocab = 65 },
  data = { text = "corpus.txt", tokenizer = { type = "char" } },
  train = { iterations = 10, precision = "fp16", global_batch = 4, lr = { peak = 1e-3 } },
}
