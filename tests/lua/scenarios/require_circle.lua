--@ error: modules/circle.lua:1: require "modules.circle": it requires itself
require "modules.circle"
return job {}
