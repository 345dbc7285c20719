# Writes OUTPUT, a C++ source with the text of every Lua file in FILES, named FOLDER/NAME.lua (see lua/host/embedded.hpp).
set(rows "")
foreach(path ${FILES})
  get_filename_component(name ${path} NAME)
  get_filename_component(folder ${path} DIRECTORY)
  get_filename_component(folder ${folder} NAME)
  file(READ ${path} text)
  if(text MATCHES "\\)LUA\"")
    message(FATAL_ERROR "${path} holds the text that ends a raw string")
  endif()
  string(APPEND rows "    {\"${folder}/${name}\", R\"LUA(${text})LUA\"},\n")
endforeach()
file(WRITE ${OUTPUT} "// Made from Lua files by lua/embed.cmake.\n#include \"lua/host/embedded.hpp\"\n\nnamespace railyard::lua {\n\n"
  "const std::vector<EmbeddedFile>& embedded_files() {\n  static const std::vector<EmbeddedFile> files = {\n${rows}  };\n"
  "  return files;\n}\n\n}  // namespace railyard::lua\n")
