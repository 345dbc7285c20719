--@ error: 2: load: takes a string here, not a function
load(function() return "" end)
return job {}
