--@ error: 2: stopped after 100000000 instructions; is there an endless loop?
table.move({}, 1, math.maxinteger - 2, 2)
return job {}
