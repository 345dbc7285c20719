--@ error: 2: coroutine.wrap is not available here: a settings file has no use for it
coroutine.wrap(function() while true do end end)()
return job {}
