--@ error: 2: stopped after 100000000 instructions; is there an endless loop?
local t = setmetatable({}, { __index = function(t, k) while true do end end })
local _ = t.x
return job {}
