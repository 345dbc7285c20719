--@ error: 2: stopped after 100000000 instructions; is there an endless loop?
while true do xpcall(function() while true do end end, function() while true do end end) end
return job {}
