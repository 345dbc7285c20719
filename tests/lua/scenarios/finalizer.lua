--@ error: 2: setmetatable: __gc is not available here
setmetatable({}, { __gc = function() while true do end end })
return job {}
