--@ error: 2: job takes one table: job { ... }
return job "name"
