--@ error: 2: '}' expected near '5'
return job { 4 5 }
