--@ error: 2: stopped after 100000000 instructions; is there an endless loop?
local s = ("").rep("", 1e15)
return job {}
