--@ error: returns a table instead of a job; the file must end with `return job { ... }`
return { name = "x" }
