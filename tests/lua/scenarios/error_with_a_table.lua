--@ error: 2: error() was called with a table
error({ 1 })
