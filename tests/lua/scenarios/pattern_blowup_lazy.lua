--@ error: 3: stopped after 100000000 instructions; is there an endless loop?
local s = ("a"):rep(3000)
local _ = s:match("^(.-)(.-)(.-)(.-)(.-)b$")
return job {}
