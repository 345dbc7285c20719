--@ error: 2: a table with __len is not a plain list
table.insert(setmetatable({}, { __len = function() return 1e15 end }), 1, 1)
return job {}
