-- A model whose layers divide over ten stages: the job of test_large_start.cpp.
local models = require "railyard.models"
return job {
  name = "large",
  model = models.transformer {
    layers = 80, hidden = 8192, heads = 64, kv_heads = 8, ffn = 28672, vocab = 128256, seq_length = 8192,
    norm = "rmsnorm", activation = "swiglu", position = "rope",
  },
  data = { mock = true },
  parallel = { tp = 8, pp = 10, sequence_parallel = true },
  train = { iterations = 1000, micro_batch = 1, global_batch = 2000, precision = "bf16", lr = { peak = 1e-4 } },
}
