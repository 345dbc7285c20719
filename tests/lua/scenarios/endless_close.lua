--@ error: 2: stopped after 100000000 instructions; is there an endless loop?
do local x <close> = setmetatable({}, { __close = function() while true do end end }) end
return job {}
