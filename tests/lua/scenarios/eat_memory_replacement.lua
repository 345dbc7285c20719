--@ error: 2: stopped: the file needs more than its limit of 64 MiB of memory; does a loop grow a table, or a function call itself?
local s = ("x"):rep(1e6) local _ = s:gsub(".*", ("%0"):rep(1e6))
return job {}
