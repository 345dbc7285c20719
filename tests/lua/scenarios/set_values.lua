--@ set: train.iterations=20
--@ set: train.lr={ peak = 2e-3, schedule = "linear" }
--@ set: name=run-7
--@ set: data.text=other.txt
--@ set: run.setenv.A=b
--@ set: model.seq_length = 32
--@ set: train.lr.warmup=nil
--@ json: {"name": "run-7", "train": {"iterations": 20, "lr": {"peak": 0.002, "schedule": "linear", "warmup": 0}}, "data": {"text": "other.txt"}, "run": {"setenv": {"A": "b"}}, "model": {"seq_length": 32, "max_positions": 32}}
local models = require "railyard.models"
return job {
  model = models.tiny_llama { vocab = 65 },
  data = { text = "corpus.txt", tokenizer = { type = "char" } },
  train = { iterations = 10, global_batch = 4, lr = { peak = 1e-3, warmup = 5 } },
}
