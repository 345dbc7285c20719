--@ error: 3: stopped after 100000000 instructions; is there an endless loop?
local s = ("a"):rep(3000)
while true do pcall(s.gsub, s, ("a-"):rep(20) .. "b", "") end
return job {}
