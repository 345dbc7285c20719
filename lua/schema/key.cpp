// Building keys, and the units that texts may carry.
#include <cctype>
#include <cmath>
#include <cstdlib>

#include "lua/schema/schema.hpp"

namespace railyard::lua {
namespace {

Key make(std::string path, Kind kind, std::string help, Json fallback = nullptr) {
  Key key;
  key.path = std::move(path);
  key.kind = kind;
  key.help = std::move(help);
  key.fallback = std::move(fallback);
  return key;
}

// "90 s" is 90 and "s"; the unit is in lower case.
std::optional<std::pair<double, std::string>> number_with_unit(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || !std::isfinite(value)) return std::nullopt;
  std::string unit;
  for (; *end != '\0'; ++end)
    if (*end != ' ') unit += static_cast<char>(std::tolower(static_cast<unsigned char>(*end)));
  return std::pair(value, unit);
}

// Slurm's forms: minutes:seconds, hours:minutes:seconds, days-hours[:minutes[:seconds]].
std::optional<double> slurm_time(const std::string& text) {
  std::vector<double> parts;
  const auto dash = text.find('-');
  const bool days = dash != std::string::npos;
  if (!days && text.find(':') == std::string::npos) return std::nullopt;
  std::string part;
  for (const char c : text + ":") {
    if (std::isdigit(static_cast<unsigned char>(c)) != 0 && part.size() < 9) {
      part += c;
    } else if ((c == ':' || (c == '-' && parts.empty())) && !part.empty()) {
      parts.push_back(std::stod(part));
      part.clear();
    } else {
      return std::nullopt;
    }
  }
  if (days && parts.size() >= 2 && parts.size() <= 4) {
    parts.resize(4, 0.0);
    return ((parts[0] * 24 + parts[1]) * 60 + parts[2]) * 60 + parts[3];
  }
  if (!days && parts.size() == 2) return parts[0] * 60 + parts[1];
  if (!days && parts.size() == 3) return (parts[0] * 60 + parts[1]) * 60 + parts[2];
  return std::nullopt;
}

}  // namespace

Key Key::required() && {
  needed = true;
  return std::move(*this);
}
Key Key::value(Json value) && {
  fallback = std::move(value);
  return std::move(*this);
}
Key Key::range(double low, double high) && {
  least = low;
  most = high;
  return std::move(*this);
}
Key Key::above(double low) && {
  least = low;
  above_least = true;
  return std::move(*this);
}
Key Key::below_or_at(double high) && {
  most = high;
  return std::move(*this);
}
Key Key::sizes(std::size_t low, std::size_t high) && {
  least_size = low;
  most_size = high;
  return std::move(*this);
}
Key Key::one_of(std::vector<std::string> now, std::vector<std::string> later) && {
  choices = std::move(now);
  later_choices = std::move(later);
  return std::move(*this);
}
Key Key::word(std::string name, Json value) && {
  words.emplace_back(std::move(name), std::move(value));
  return std::move(*this);
}
Key Key::text_for(std::string key) && {
  text_key = std::move(key);
  return std::move(*this);
}
Key Key::derive(std::string how, std::function<Json(const Json&)> from) && {
  derived_help = std::move(how);
  derived = std::move(from);
  return std::move(*this);
}
Key Key::not_built() && {
  built = Built::kDefaultOnly;
  return std::move(*this);
}
Key Key::nothing_built() && {
  built = Built::kNo;
  return std::move(*this);
}

Key boolean(std::string path, std::string help) {
  return make(std::move(path), Kind::kBoolean, std::move(help), false);
}
Key integer(std::string path, std::string help) { return make(std::move(path), Kind::kInteger, std::move(help)); }
Key number(std::string path, std::string help) { return make(std::move(path), Kind::kNumber, std::move(help)); }
Key duration(std::string path, std::string help) {
  return make(std::move(path), Kind::kDuration, std::move(help)).range(0);
}
Key bytes(std::string path, std::string help) { return make(std::move(path), Kind::kBytes, std::move(help)).range(0); }
Key text(std::string path, std::string help) { return make(std::move(path), Kind::kText, std::move(help), ""); }
Key integers(std::string path, std::string help) {
  return make(std::move(path), Kind::kIntegers, std::move(help), Json::array());
}
Key numbers(std::string path, std::string help) {
  return make(std::move(path), Kind::kNumbers, std::move(help), Json::array());
}
Key texts(std::string path, std::string help) {
  return make(std::move(path), Kind::kTexts, std::move(help), Json::array());
}
Key text_map(std::string path, std::string help) {
  return make(std::move(path), Kind::kTextMap, std::move(help), Json::object());
}
Key table(std::string path, std::string help) {
  return make(std::move(path), Kind::kTable, std::move(help), Json::object());
}
Key optional_table(std::string path, std::string help) { return make(std::move(path), Kind::kTable, std::move(help)); }
Key tables(std::string path, std::string help) {
  return make(std::move(path), Kind::kTables, std::move(help), Json::array());
}
Key function(std::string path, std::string help) {
  return make(std::move(path), Kind::kFunction, std::move(help), false);
}

std::optional<double> parse_duration(const std::string& text) {
  if (const auto time = slurm_time(text)) return time;
  const auto read = number_with_unit(text);
  if (!read) return std::nullopt;
  static const std::map<std::string, double> units{{"", 1},         {"s", 1},     {"sec", 1},
                                                   {"min", 60},     {"m", 60},    {"h", 3600},
                                                   {"hours", 3600}, {"d", 86400}, {"days", 86400}};
  const auto unit = units.find(read->second);
  if (unit == units.end()) return std::nullopt;
  return read->first * unit->second;
}

std::optional<double> parse_bytes(const std::string& text) {
  const auto read = number_with_unit(text);
  if (!read) return std::nullopt;
  static const std::map<std::string, double> units{
      {"", 1},      {"b", 1},        {"kb", 1e3},        {"mb", 1e6},           {"gb", 1e9},
      {"tb", 1e12}, {"kib", 1024.0}, {"mib", 1048576.0}, {"gib", 1073741824.0}, {"tib", 1099511627776.0}};
  const auto unit = units.find(read->second);
  if (unit == units.end()) return std::nullopt;
  return read->first * unit->second;
}

}  // namespace railyard::lua
