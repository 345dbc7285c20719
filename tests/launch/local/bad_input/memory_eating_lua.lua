--@ error: .*memory_eating_lua\.lua:[0-9]+: .*memory.*
local all = {}
while true do all[#all + 1] = ("railyard"):rep(1000) .. #all end
