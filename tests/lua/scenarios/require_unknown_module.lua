--@ error: 2: require: there is no module "railyard.modles"; did you mean railyard.models?
require "railyard.modles"
return job {}
