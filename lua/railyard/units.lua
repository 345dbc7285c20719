-- Units for counts and times: train.samples = 300 * units.M, exit_duration = 23.5 * units.hours.

return {
  k = 1000, M = 1000000, G = 1000000000,
  Ki = 1024, Mi = 1048576, Gi = 1073741824,
  seconds = 1, minutes = 60, hours = 3600, days = 86400,
}
