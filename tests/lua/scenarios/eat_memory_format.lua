--@ error: 2: stopped: the file needs more than its limit of 64 MiB of memory; does a loop grow a table, or a function call itself?
local s = ("x"):rep(1e6) while true do s = string.format("%s%s", s, s) end
return job {}
