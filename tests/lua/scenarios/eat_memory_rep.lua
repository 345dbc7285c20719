--@ error: 2: stopped: the file needs more than its limit of 64 MiB of memory; does a loop grow a table, or a function call itself?
local s = ("x"):rep(1e9)
return job {}
