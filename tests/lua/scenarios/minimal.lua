--@ json: {"name": "minimal", "model": {"layers": 4, "kv_heads": 2, "head_dim": 32, "max_positions": 64, "vocab": 65, "qkv_bias": false}}
--@ json: {"train": {"iterations": 10, "micro_batch": 1, "precision": "fp32", "seed": 1234, "optimizer": {"beta1": 0.9, "beta2": 0.95}, "lr": {"schedule": "cosine", "decay_iterations": 10}}}
--@ json: {"parallel": {"tp": 1, "dp": 0, "order": "tp-cp-ep-dp-pp"}, "checkpoint": {"dir": "ckpt", "init_from": null}, "eval": {"every": 0, "batches": 0}}
local models = require "railyard.models"
return job {
  model = models.tiny_llama { vocab = 65 },
  data = { text = "corpus.txt", tokenizer = { type = "char" } },
  train = { iterations = 10, global_batch = 4, lr = { peak = 1e-3 } },
}
