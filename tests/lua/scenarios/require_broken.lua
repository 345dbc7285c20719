--@ error: modules/broken.lua:2: unexpected symbol near '='
require "modules.broken"
return job {}
