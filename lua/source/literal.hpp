// Values given on the command line: `--set key.path=value`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/json.hpp"

namespace railyard::lua {

// A Lua literal (number, string, boolean, nil, table of such) becomes its value; any other text is a string, spaces
// around it removed.
Json parse_value(std::string_view text);

// One `--set`.
struct Setting {
  std::vector<std::string> path;  // "data", "train", "1", "path": list items by their number
  Json value;                     // null removes the key
  std::string text;               // as given, for messages
};

// Reads "key.path=value"; items of lists are written train[1] or train.1. UsageError when there is no key or no '='.
Setting parse_setting(const std::string& text);

// Applies it to `document`, making tables on the way; a plain value on the way (parallel = "auto") gives way to a
// table. UsageError when a list has no such item.
void apply_setting(Json& document, const Setting& setting);

// "data.train[1].path" of a Setting's path.
std::string setting_path(const Setting& setting);

}  // namespace railyard::lua
