--@ error: 2: stopped after 100000000 instructions; is there an endless loop?
while true do pcall(function() while true do end end) end
return job {}
