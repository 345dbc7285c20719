#!/usr/bin/env -S railyard run
#SBATCH --job-name=tiny
#SBATCH --nodes=2 --ntasks-per-node=2
#SBATCH --open-mode=append

local models = require "railyard.models"

return job {
  name = "tiny",
  model = models.transformer {
    layers = 2, hidden = 32, heads = 4, ffn = 64, vocab = "auto", seq_length = 32, max_positions = 32,
    norm = "layernorm", activation = "gelu", position = "learned", vocab_divisible_by = 8, hidden_dropout = 0.1,
  },
  data = { text = "corpus.txt", tokenizer = { type = "char" } },
  parallel = { tp = 2, pp = 1, dp = "fill" },
  train = {
    iterations = 20, micro_batch = 1, global_batch = 8, precision = "fp32", seed = 7,
    optimizer = { type = "adamw" },
    lr = { schedule = "constant", peak = 1e-3 },
  },
  checkpoint = { dir = "ckpt", every = 5, keep = 2, resume = "auto" },
  run = { device = "cpu", timeout = 30 },
}
