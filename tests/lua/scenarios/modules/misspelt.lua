return {
  iterations = 10, global_batch = 4,
  lr = { peek = 1e-3 },
}
