--@ error: 2: no place
error("no place", 0)
