--@ error: 2: stopped: the file needs more than its limit of 64 MiB of memory; does a loop grow a table, or a function call itself?
local t = {} for i = 1, 1000 do t[i] = ("x"):rep(1e5) end local _ = table.concat(t)
return job {}
