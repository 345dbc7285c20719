#!/usr/bin/env railyard
#SBATCH --job-name=nanogpt-char
#SBATCH --nodes=1 --ntasks=1
#SBATCH --time=00:30:00

-- nanoGPT's character-level run in its CPU variant (its README reports a validation loss of 1.88): the same model, data,
-- batch and schedule, so that the curves can be laid over each other. The text is tiny Shakespeare, 1.1 MB.
--
--   railyard run examples/nanogpt_char.lua --ranks 1 --set data.text=PATH/tinyshakespeare.txt

local models = require "railyard.models"

return job {
  name = "nanogpt-char",
  model = models.transformer {
    layers = 4, hidden = 128, heads = 4, ffn = 512, vocab = "auto", seq_length = 64, max_positions = 64,
    norm = "layernorm", norm_eps = 1e-5, activation = "gelu", position = "learned", bias = false, tied_embeddings = true,
    attention_dropout = 0, hidden_dropout = 0, init_std = 0.02, scaled_init = true,
  },
  data = {
    text = "data/tinyshakespeare.txt",
    tokenizer = { type = "char" },
    split = "90,10,0",
    sampling = "random",
  },
  train = {
    iterations = 2000, micro_batch = 12, global_batch = 12, precision = "fp32", seed = 1337,
    optimizer = { type = "adamw", betas = { 0.9, 0.99 }, eps = 1e-8, weight_decay = 0.1, clip_grad = 1.0 },
    lr = { schedule = "cosine", peak = 1e-3, min = 1e-4, warmup = 100, decay_iterations = 2000 },
  },
  checkpoint = { every = 500, keep = 2 },
  eval = { every = 250, batches = 200 },
}
