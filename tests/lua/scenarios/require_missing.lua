--@ error: 2: require "nothing": there is no file nothing.lua
require "nothing"
return job {}
