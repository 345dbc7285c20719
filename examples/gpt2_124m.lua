#!/usr/bin/env railyard
#SBATCH --job-name=gpt2-124m
#SBATCH --nodes=1 --gpus-per-node=8 --ntasks-per-node=8 --exclusive
#SBATCH --time=04:00:00 --requeue --signal=B:USR1@120

-- GPT-2 124M on 10 billion tokens of web text, with the batch, learning rate and steps of llm.c's reproduction.

local models = require "railyard.models"

local batch, length = 512, 1024            -- 524,288 tokens a step

return job {
  name = "gpt2-124m",
  model = models.gpt2_124m { seq_length = length, attention_dropout = 0, hidden_dropout = 0 },
  data = {
    train = { { path = env.DATA or "data/fineweb_10b_text_document" } },
    split = "995,5,0",
    tokenizer = { type = "gpt2", path = env.TOKENIZER or "data/gpt2" },
  },
  parallel = { dp = "fill" },
  train = {
    iterations = 18865, micro_batch = 64, global_batch = batch, precision = "bf16",
    optimizer = { type = "adamw", betas = { 0.9, 0.95 }, weight_decay = 0.1, clip_grad = 1.0, distributed = true },
    lr = { schedule = "cosine", peak = 6e-4, min = 0, warmup = 700 },
  },
  checkpoint = { every = 1000, keep = 3 },
  eval = { every = 250, batches = 20 },
}
