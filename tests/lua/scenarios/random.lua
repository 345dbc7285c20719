--@ error: 2: math.random is not available here: the file must give the same answer each time
math.random()
return job {}
