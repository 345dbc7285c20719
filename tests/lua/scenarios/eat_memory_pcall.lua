--@ error: 2: stopped: the file needs more than its limit of 64 MiB of memory; does a loop grow a table, or a function call itself?
while true do pcall(function() return ("x"):rep(1e9) end) end
return job {}
