// Checks a document against a schema and fills in what it leaves out.
#include "lua/schema/schema.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lua/host/convert.hpp"
#include "lua/schema/suggestion.hpp"
#include "runtime/base/error.hpp"

namespace railyard::lua {
namespace {

// Beyond it not every integer has a double of its own, so that 2^53 + 1 and the like would change silently.
constexpr double kLargestExactInteger = 9007199254740992.0;

std::string last_part(const std::string& path) {
  const auto dot = path.rfind('.');
  return dot == std::string::npos ? path : path.substr(dot + 1);
}

std::string parent_of(const std::string& path) {
  const auto dot = path.rfind('.');
  return dot == std::string::npos ? "" : path.substr(0, dot);
}

// "a", "b" or "c"
std::string enumerate(const std::vector<std::string>& names) {
  std::string list;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) list += i + 1 == names.size() ? " or " : ", ";
    list += fmt::format("\"{}\"", names[i]);
  }
  return list;
}

std::string number_text(double value) {
  if (value == std::floor(value) && std::abs(value) < 1e12) return fmt::format("{:.0f}", value);
  return fmt::format("{:g}", value);
}

const char* expected(Kind kind) {
  switch (kind) {
    case Kind::kBoolean:
      return "true or false";
    case Kind::kInteger:
      return "an integer";
    case Kind::kNumber:
      return "a number";
    case Kind::kDuration:
      return "seconds or a time such as \"90 s\", \"10 min\" or \"24:00:00\"";
    case Kind::kBytes:
      return "bytes or a size such as \"80 GB\" or \"2 TiB\"";
    case Kind::kText:
      return "a string";
    case Kind::kIntegers:
      return "a list of integers";
    case Kind::kNumbers:
      return "a list of numbers";
    case Kind::kTexts:
      return "a list of strings";
    case Kind::kTextMap:
      return "a table of strings";
    case Kind::kTable:
      return "a table";
    case Kind::kTables:
      return "a list of tables";
    case Kind::kFunction:
      return "a function";
  }
  return "something else";
}

}  // namespace

std::string told(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return "nil";
    case Json::value_t::boolean:
      return value.get<bool>() ? "true" : "false";
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned:
      return fmt::format("{}", value.get<std::int64_t>());
    case Json::value_t::number_float: {
      const double number = value.get<double>();
      return std::isnan(number)   ? "not a number (0/0)"
             : std::isinf(number) ? (number > 0 ? "infinity" : "-infinity")
                                  : number_text(number);
    }
    case Json::value_t::string:
      return fmt::format("\"{}\"", printable(value.get_ref<const std::string&>(), 60));
    case Json::value_t::array:
      return "a list";
    case Json::value_t::object:
      return "a table";
    case Json::value_t::binary:
      return "a function";
    default:
      return "something else";
  }
}

Schema::Schema(std::vector<Key> keys, Foreign foreign)
    : keys_(std::move(keys)), nodes_(1), foreign_(std::move(foreign)) {
  std::map<std::string, std::size_t> known{{"", 0}};
  for (const Key& key : keys_) {
    std::string parent = parent_of(key.path);
    if (parent.ends_with("[]")) parent.resize(parent.size() - 2);
    const auto above = known.find(parent);
    RAILYARD_CHECK(above != known.end(), "{} is declared before its table", key.path);
    RAILYARD_CHECK(known.emplace(key.path, nodes_.size()).second, "{} is declared twice", key.path);
    nodes_[above->second].children.emplace_back(last_part(key.path), nodes_.size());
    nodes_.push_back({&key, {}});
  }
}

// One run over a document.
class Schema::Check {
 public:
  Check(const Schema& schema, const CheckOptions& options, std::vector<Finding>& findings)
      : schema_(schema), options_(options), findings_(findings) {}

  Json table(const Json& given, const Node& node, const std::string& path) {
    if (given.is_array() && !given.empty()) {
      report(path, "expected a table with named keys, got a list");
      return nullptr;
    }
    bool unknown = false;
    if (given.is_object()) {
      for (const auto& [name, value] : given.items()) {
        if (std::any_of(node.children.begin(), node.children.end(),
                        [&](const auto& child) { return child.first == name; }))
          continue;
        report(join_path(path, name), schema_.unknown_key(join_path(path, name), name, node));
        unknown = true;
      }
    }
    Json result = Json::object();
    for (const auto& [name, index] : node.children) {
      const Node& child = schema_.nodes_[index];
      const auto found = given.is_object() ? given.find(name) : given.end();
      const bool absent = !given.is_object() || found == given.end() || found->is_null();
      Json filled =
          absent ? fallback(child, join_path(path, name), unknown) : value(*found, child, join_path(path, name));
      if (child.key->built != Built::kNo) result[name] = std::move(filled);
    }
    return result;
  }

 private:
  void report(const std::string& path, std::string message) { findings_.push_back({path, std::move(message)}); }

  // The value of a key that was not given. Where its table has unknown keys, one of them may be meant for it: one
  // message is enough.
  Json fallback(const Node& node, const std::string& path, bool unknown_beside) {
    const Key& key = *node.key;
    if (key.needed && !unknown_beside) report(path, fmt::format("missing; it must be given: {}", key.help));
    if (key.kind == Kind::kTable && key.fallback.is_object()) return table(Json::object(), node, path);
    return key.fallback;
  }

  // The value of a key that was given.
  Json value(Json given, const Node& node, const std::string& path) {
    const Key& key = *node.key;
    if (key.built == Built::kNo) {
      report(path, fmt::format("{}: not built yet; leave it out", key.help));
      return nullptr;
    }
    if (given.is_string()) {
      const auto& word = given.get_ref<const std::string&>();
      const auto known =
          std::find_if(key.words.begin(), key.words.end(), [&](const auto& row) { return row.first == word; });
      if (known != key.words.end() && key.kind != Kind::kTable) return known->second;
      if (known != key.words.end())
        given = known->second;
      else if (!key.text_key.empty())
        given = Json::object({{key.text_key, word}});
    }
    const std::size_t before = findings_.size();
    Json result = typed(given, node, path);
    if (findings_.size() == before && options_.require_built && key.built == Built::kDefaultOnly &&
        result != key.fallback) {
      // The default of the table's keys is what counts for tables.
      const bool same =
          key.kind == Kind::kTable && key.fallback.is_object() && result == table(Json::object(), node, path);
      if (!same)
        report(path, fmt::format("{} is not built yet; leave it {}", describe(key, result),
                                 key.fallback.is_null() || key.fallback.empty() ? "out" : "at " + told(key.fallback)));
    }
    return result;
  }

  static std::string describe(const Key& key, const Json& value) {
    return value.is_primitive() ? fmt::format("{} ({})", told(value), key.help) : key.help;
  }

  Json typed(const Json& given, const Node& node, const std::string& path) {
    const Key& key = *node.key;
    switch (key.kind) {
      case Kind::kBoolean:
        if (given.is_boolean()) return given;
        break;
      case Kind::kInteger:
        if (given.is_number()) return integer_value(given, key, path);
        break;
      case Kind::kNumber:
        if (given.is_number()) return number_value(given, key, path);
        break;
      case Kind::kDuration:
      case Kind::kBytes:
        return measured(given, key, path);
      case Kind::kText:
        if (given.is_string()) return text_value(given, key, path);
        break;
      case Kind::kIntegers:
      case Kind::kNumbers:
      case Kind::kTexts:
        return list(given, key, path);
      case Kind::kTextMap:
        return text_map_value(given, key, path);
      case Kind::kTable:
        if (given.is_object() || given.is_array()) return table(given, node, path);
        break;
      case Kind::kTables:
        return table_list(given, node, path);
      case Kind::kFunction:
        if (given.is_binary()) return true;
        break;
    }
    wrong_kind(given, key, path);
    return nullptr;
  }

  void wrong_kind(const Json& given, const Key& key, const std::string& path) {
    std::string wanted = expected(key.kind);
    for (const auto& [word, unused] : key.words) wanted += fmt::format(" or \"{}\"", word);
    report(path, fmt::format("expected {}, got {}", wanted, told(given)));
  }

  bool in_range(double value, const Json& given, const Key& key, const std::string& path) {
    const bool high_enough = key.above_least ? value > key.least : value >= key.least;
    if (high_enough && value <= key.most) return true;
    const bool bounded_below = std::isfinite(key.least), bounded_above = std::isfinite(key.most);
    std::string wanted = bounded_below && bounded_above && !key.above_least
                             ? fmt::format("between {} and {}", number_text(key.least), number_text(key.most))
                         : bounded_below
                             ? fmt::format("{} {}", key.above_least ? "above" : "at least", number_text(key.least))
                             : fmt::format("at most {}", number_text(key.most));
    if (bounded_below && bounded_above && key.above_least)
      wanted += fmt::format(" and at most {}", number_text(key.most));
    report(path, fmt::format("must be {}, got {}", wanted, told(given)));
    return false;
  }

  Json integer_value(const Json& given, const Key& key, const std::string& path) {
    const auto value = given.get<double>();
    if (!std::isfinite(value) || value != std::floor(value) ||
        (given.is_number_float() && std::abs(value) > kLargestExactInteger)) {
      report(path, fmt::format("expected an integer, got {}", told(given)));
      return nullptr;
    }
    if (!in_range(value, given, key, path)) return nullptr;
    return given.is_number_float() ? Json(static_cast<std::int64_t>(value)) : given;
  }

  Json number_value(const Json& given, const Key& key, const std::string& path) {
    const auto value = given.get<double>();
    if (!std::isfinite(value)) {
      report(path, fmt::format("expected a finite number, got {}", told(given)));
      return nullptr;
    }
    if (!in_range(value, given, key, path)) return nullptr;
    return value;
  }

  Json measured(const Json& given, const Key& key, const std::string& path) {
    if (given.is_number()) return number_value(given, key, path);
    if (given.is_string()) {
      const auto& text = given.get_ref<const std::string&>();
      if (const auto value = key.kind == Kind::kDuration ? parse_duration(text) : parse_bytes(text))
        return in_range(*value, given, key, path) ? Json(*value) : Json(nullptr);
    }
    wrong_kind(given, key, path);
    return nullptr;
  }

  Json text_value(const Json& given, const Key& key, const std::string& path) {
    const auto& text = given.get_ref<const std::string&>();
    if (!is_plain_utf8(text)) {
      report(path, fmt::format("{} is not UTF-8 text", told(given)));
      return nullptr;
    }
    if (key.choices.empty()) return given;
    if (std::find(key.choices.begin(), key.choices.end(), text) != key.choices.end()) return given;
    std::vector<std::string> all = key.choices;
    all.insert(all.end(), key.later_choices.begin(), key.later_choices.end());
    if (std::find(key.later_choices.begin(), key.later_choices.end(), text) != key.later_choices.end()) {
      if (options_.require_built)
        report(path, fmt::format("\"{}\" is not built yet; use {}", text, enumerate(key.choices)));
      return given;
    }
    const auto near = nearest_name(text, all);
    report(path, fmt::format("must be {}, got {}{}", enumerate(all), told(given),
                             near ? fmt::format("; did you mean \"{}\"?", *near) : ""));
    return nullptr;
  }

  // Lists of plain values. The key's range holds for each item.
  Json list(const Json& given, const Key& key, const std::string& path) {
    Json result = Json::array();
    if (!given.is_array() && !(given.is_object() && given.empty())) {
      wrong_kind(given, key, path);
      return nullptr;
    }
    if (given.size() < key.least_size || given.size() > key.most_size) {
      report(path, key.least_size == key.most_size
                       ? fmt::format("expected {} values, got {}", key.least_size, given.size())
                       : fmt::format("expected {} to {} values, got {}", key.least_size, key.most_size, given.size()));
      return nullptr;
    }
    for (std::size_t i = 0; i < given.size(); ++i) {
      const Json& item = given[i];
      const std::string at = join_path(path, i + 1);
      if (key.kind == Kind::kTexts ? !item.is_string() : !item.is_number()) {
        report(at, fmt::format("expected {}, got {}",
                               key.kind == Kind::kTexts      ? "a string"
                               : key.kind == Kind::kIntegers ? "an integer"
                                                             : "a number",
                               told(item)));
        continue;
      }
      result.push_back(key.kind == Kind::kTexts      ? text_value(item, key, at)
                       : key.kind == Kind::kIntegers ? integer_value(item, key, at)
                                                     : number_value(item, key, at));
    }
    return result;
  }

  Json text_map_value(const Json& given, const Key& key, const std::string& path) {
    Json result = Json::object();
    if (!given.is_object() && !(given.is_array() && given.empty())) {
      wrong_kind(given, key, path);
      return nullptr;
    }
    for (const auto& [name, item] : given.items()) {
      const std::string at = join_path(path, name);
      if (name.empty() || name.find('=') != std::string::npos || !is_plain_utf8(name))
        report(at, "is no name of an environment variable");
      else if (item.is_string())
        result[name] = text_value(item, key, at);
      else if (item.is_number_integer())
        result[name] = fmt::format("{}", item.get<std::int64_t>());
      else
        report(at, fmt::format("expected a string, got {}", told(item)));
    }
    return result;
  }

  Json table_list(const Json& given, const Node& node, const std::string& path) {
    Json items = Json::array();
    if (given.is_array())
      items = given;
    else if (given.is_object() && !given.empty())
      items.push_back(given);
    else if (!given.is_object()) {
      wrong_kind(given, *node.key, path);
      return nullptr;
    }
    Json result = Json::array();
    for (std::size_t i = 0; i < items.size(); ++i) {
      Json item = items[i];
      const std::string at = join_path(path, i + 1);
      if (item.is_string() && !node.key->text_key.empty()) item = Json::object({{node.key->text_key, item}});
      if (!item.is_object())
        report(at, fmt::format("expected a table, got {}", told(item)));
      else
        result.push_back(table(item, node, at));
    }
    return result;
  }

  const Schema& schema_;
  const CheckOptions& options_;
  std::vector<Finding>& findings_;
};

std::string Schema::unknown_key(const std::string& path, const std::string& name, const Node& table) const {
  std::vector<std::string> siblings;
  for (const auto& [sibling, unused] : table.children) siblings.push_back(sibling);
  if (foreign_)
    if (const auto answer = foreign_(name)) return "unknown key; " + *answer;
  for (const Key& key : keys_)
    if (last_part(key.path) == name && key.path != path && key.path.find("[]") == std::string::npos)
      return fmt::format("unknown key; {} is a key of {}: {}", printable(name),
                         parent_of(key.path).empty() ? "the job itself" : parent_of(key.path), key.path);
  const auto near = nearest_name(name, siblings);
  return near ? fmt::format("unknown key; did you mean {}?", *near) : "unknown key";
}

Json Schema::check(const Json& given, const CheckOptions& options, std::vector<Finding>& findings) const {
  const std::size_t before = findings.size();
  Json document = Check(*this, options, findings).table(given, nodes_.front(), "");
  if (findings.size() != before) return document;
  for (const Key& key : keys_) {
    if (!key.derived || key.built == Built::kNo) continue;
    Json* at = &document;
    std::string path = "/" + key.path;
    std::replace(path.begin(), path.end(), '.', '/');
    const Json::json_pointer pointer(path);
    if (!document.at(pointer.parent_pointer()).is_object()) continue;  // an optional table that is absent
    at = &document.at(pointer);
    if (at->is_null()) *at = key.derived(document);
  }
  return document;
}

}  // namespace railyard::lua
