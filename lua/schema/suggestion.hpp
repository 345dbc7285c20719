// "Did you mean": the known name nearest to a misspelt one.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace railyard::lua {

// The nearest of `known` by edits (insert, delete, replace, swap of neighbours; case and '_' against '-' count
// nothing), or nothing when even that one differs in more than a third of its letters. Ties go to the first.
std::optional<std::string> nearest_name(std::string_view name, const std::vector<std::string>& known);

// `text` fit to be printed: control characters and bytes that are not UTF-8 become \xNN, long texts are cut.
std::string printable(std::string_view text, std::size_t most = 80);

// True when `text` is well-formed UTF-8 without NUL.
bool is_plain_utf8(std::string_view text);

}  // namespace railyard::lua
