--@ error: 6: train: is a table with a metatable, whose values may be hidden; give a plain table
local models = require "railyard.models"
return job {
  model = models.tiny_llama { vocab = 65 },
  data = { text = "corpus.txt", tokenizer = { type = "char" } },
  train = setmetatable({ iterations = 10, global_batch = 4, lr = { peak = 1e-3 } }, {
    __index = function() return 1 end }),
}
