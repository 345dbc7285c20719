--@ error: 6: train.micro_batch_size: unknown key; Megatron's --micro-batch-size is train.micro_batch here
local models = require "railyard.models"
return job {
  model = models.tiny_llama { vocab = 65 },
  data = { text = "corpus.txt", tokenizer = { type = "char" } },
  train = { iterations = 10, global_batch = 4, micro_batch_size = 2, lr = { peak = 1e-3 } },
}
