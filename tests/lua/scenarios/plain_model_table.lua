--@ json: {"model": {"layers": 2, "ffn": 640}}
return job {
  model = { layers = 2, hidden = 256, heads = 8, seq_length = 32, vocab = 65, activation = "swiglu" },
  data = { text = "corpus.txt", tokenizer = { type = "char" } },
  train = { iterations = 10, global_batch = 4, lr = { peak = 1e-3 } },
}
