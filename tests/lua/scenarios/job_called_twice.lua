--@ error: 5: job is called twice; a file describes one job

local a = job {}

return job {}
