--@ error: 2: stopped after 100000000 instructions; is there an endless loop?
local _ = tostring(setmetatable({}, { __tostring = function() while true do end end }))
return job {}
