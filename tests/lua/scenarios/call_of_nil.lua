--@ error: 3: attempt to index a nil value (local 'x')
local x
return x.y
