// Finds an embedded file by its name.
#include "lua/host/embedded.hpp"

namespace railyard::lua {

std::optional<std::string_view> embedded_text(std::string_view name) {
  for (const EmbeddedFile& file : embedded_files())
    if (file.name == name) return file.text;
  return std::nullopt;
}

}  // namespace railyard::lua
