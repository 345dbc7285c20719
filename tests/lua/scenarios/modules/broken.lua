return {
  iterations = = 3
}
