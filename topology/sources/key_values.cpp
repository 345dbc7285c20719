// Splits Key=Value lines.
#include "topology/sources/key_values.hpp"

#include <fmt/format.h>

#include "runtime/base/error.hpp"
#include "topology/sources/text.hpp"

namespace railyard::topology {

const std::string* KeyValueLine::find(std::string_view key) const {
  for (const auto& [name, value] : pairs)
    if (same_word(name, key)) return &value;
  return nullptr;
}

std::vector<KeyValueLine> read_key_values(std::string_view text, const std::string& name) {
  std::vector<KeyValueLine> result;
  std::string joined;
  int number = 0, first = 1;
  for (const auto raw : split_lines(text)) {
    ++number;
    if (joined.empty()) first = number;
    const auto line = trimmed(raw.substr(0, raw.find('#')));
    joined += line;
    if (joined.ends_with('\\')) {
      joined.back() = ' ';
      continue;
    }
    KeyValueLine entry{fmt::format("{}:{}", name, first), {}};
    for (const auto word : split_words(joined)) {
      const auto equals = word.find('=');
      if (equals == std::string_view::npos || equals == 0)
        throw UsageError("{}: \"{}\" is not Key=Value", entry.place, word.substr(0, 60));
      auto value = word.substr(equals + 1);
      if (value.size() >= 2 && value.front() == '"' && value.back() == '"') value = value.substr(1, value.size() - 2);
      entry.pairs.emplace_back(word.substr(0, equals), value);
    }
    joined.clear();
    if (!entry.pairs.empty()) result.push_back(std::move(entry));
  }
  if (!joined.empty()) throw UsageError("{}:{}: the file ends inside a continued line", name, first);
  return result;
}

}  // namespace railyard::topology
