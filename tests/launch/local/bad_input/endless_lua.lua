--@ error: .*endless_lua\.lua:[0-9]+: .*
local sum = 0
while true do sum = sum + 1 end
