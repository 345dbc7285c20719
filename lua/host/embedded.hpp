// Lua files carried within the program: `railyard/NAME.lua` (for require "railyard.NAME") and `site/NAME.lua`.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace railyard::lua {

struct EmbeddedFile {
  std::string_view name;  // "railyard/models.lua"
  std::string_view text;
};

// All of them, in the order of their names.
const std::vector<EmbeddedFile>& embedded_files();

// The text of one, or nothing.
std::optional<std::string_view> embedded_text(std::string_view name);

}  // namespace railyard::lua
