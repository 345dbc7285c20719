--@ error: 2: string.dump is not available here: bytecode is not accepted
string.dump(print)
return job {}
