--@ error: 2: require: "../secrets" is no module name; "common" or "folder.common" names a file beside this one
require "../secrets"
return job {}
