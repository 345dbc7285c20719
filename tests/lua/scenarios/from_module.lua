--@ error: modules/misspelt.lua:3: train.lr.peek: unknown key; did you mean peak?
local models = require "railyard.models"
return job {
  model = models.tiny_llama { vocab = 65 },
  data = { text = "corpus.txt", tokenizer = { type = "char" } },
  train = require "modules.misspelt",
}
