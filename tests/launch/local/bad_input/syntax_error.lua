--@ error: .*syntax_error\.lua:3: .*
return job {
  name = "bad" "worse",
}
