#!/usr/bin/env railyard
#SBATCH --job-name=first-train
#SBATCH --nodes=2 --ntasks-per-node=2
#SBATCH --time=00:30:00

-- A first training: a small Llama-like model of 3 million parameters learns to write like the King James Bible, letter
-- by letter. It runs on four ranks anywhere: two halves of each layer (tp = 2), two shares of each batch (dp = 2).
--
--   ./yard demo                                          makes the text and trains on this machine
--   railyard run examples/first_train.lua --ranks 4      the same by hand, once data/kjv.txt is there
--   sbatch examples/first_train.lua                      the same on a cluster

local models = require "railyard.models"

return job {
  name = "first-train",
  model = models.tiny_llama { layers = 4, hidden = 256, heads = 8, kv_heads = 8, ffn = 688, seq_length = 256 },
  data = {
    text = "data/kjv.txt",                 -- bible -f gen1:1-rev22:21 > data/kjv.txt
    tokenizer = { type = "char" },
    split = "95,5,0",
    sampling = "random",
  },
  parallel = { tp = 2, dp = 2, sequence_parallel = true },
  train = {
    iterations = 400, micro_batch = 4, global_batch = 8, precision = "fp32",
    optimizer = { type = "adamw", betas = { 0.9, 0.95 }, weight_decay = 0.1, clip_grad = 1.0, distributed = true },
    lr = { schedule = "cosine", peak = 2e-3, min = 2e-4, warmup = 40 },
  },
  checkpoint = { every = 100, keep = 2 },
  eval = { every = 100, batches = 8 },
}
