--@ error: returns a number instead of a job; the file must end with `return job { ... }`
return 5
