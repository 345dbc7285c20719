-- Settings that several jobs share.
return { iterations = 77 }
