#!/usr/bin/env railyard
#SBATCH --job-name=llama3-8b
#SBATCH --nodes=4 --gpus-per-node=8 --ntasks-per-node=8 --exclusive
#SBATCH --time=24:00:00 --requeue --signal=B:USR1@120

-- Llama 3 8B from scratch on 32 GPUs: tensor parallel inside a node, two pipeline stages, the rest data parallel. The
-- data are token files made by `railyard data tokenize`.

local models = require "railyard.models"

local data = env.DATA or "/data"

return job {
  name = "llama3-8b",
  model = models.llama3_8b { seq_length = 8192 },
  data = {
    train = {
      { path = data .. "/web_text_document", weight = 0.8 },
      { path = data .. "/code_text_document", weight = 0.2 },
    },
    split = "969,30,1",
    tokenizer = { type = "huggingface", path = env.TOKENIZER or "/models/llama3/tokenizer.json" },
  },
  parallel = { tp = 4, pp = 2, dp = "fill", sequence_parallel = true },
  train = {
    iterations = 100000, micro_batch = 1, global_batch = 1024, precision = "bf16", seed = 1234,
    optimizer = { type = "adamw", betas = { 0.9, 0.95 }, eps = 1e-8, weight_decay = 0.1, clip_grad = 1.0, distributed = true },
    lr = { schedule = "cosine", peak = 3e-4, min = 3e-5, warmup = 2000 },
  },
  checkpoint = { every = 1000, keep = 3 },
  eval = { every = 500, batches = 20 },
}
