--@ error: 2: dofile is not available here: use require, which reads railyard's modules and files beside this one
dofile("/etc/passwd")
return job {}
