--@ error: 2: debug.sethook is not available here: the file is evaluated without access to the system (env.NAME reads an environment variable)
debug.sethook()
return job {}
