// Reads literals and applies settings to a document.
#include "lua/source/literal.hpp"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <optional>

#include "lua/host/convert.hpp"
#include "lua/schema/suggestion.hpp"
#include "lua/source/lexer.hpp"
#include "runtime/base/error.hpp"

namespace railyard::lua {
namespace {

constexpr int kMaximumDepth = 32;
constexpr std::size_t kLargestIndex = 100'000;

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

// A Lua numeral: integers wrap to floats when they do not fit, as in Lua.
std::optional<Json> number(const std::string& text, bool negative) {
  const bool hexadecimal = text.size() > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
  const bool integral = text.find_first_of(hexadecimal ? ".pP" : ".eE") == std::string::npos;
  if (integral) {
    std::int64_t value = 0;
    const char* begin = text.data() + (hexadecimal ? 2 : 0);
    const auto [end, error] = std::from_chars(begin, text.data() + text.size(), value, hexadecimal ? 16 : 10);
    if (end == text.data() + text.size() && error == std::errc()) return Json(negative ? -value : value);
  }
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (end != text.c_str() + text.size()) return std::nullopt;
  return Json(negative ? -value : value);
}

class LiteralParser {
 public:
  explicit LiteralParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  // The value of all tokens, or nothing when they are no literal.
  std::optional<Json> run() {
    auto value = literal(0);
    if (at_ != tokens_.size()) return std::nullopt;
    return value;
  }

 private:
  [[nodiscard]] bool symbol(std::string_view text) const {
    return at_ < tokens_.size() && tokens_[at_].is_symbol(text);
  }
  bool take(std::string_view text) {
    const bool found = symbol(text);
    if (found) ++at_;
    return found;
  }

  std::optional<Json> literal(int depth) {
    if (at_ >= tokens_.size() || depth > kMaximumDepth) return std::nullopt;
    if (take("{")) return table(depth);
    const bool negative = take("-");
    if (at_ >= tokens_.size()) return std::nullopt;
    const Token& token = tokens_[at_++];
    if (token.kind == Token::Kind::kNumber) return number(token.text, negative);
    if (negative) return std::nullopt;
    if (token.kind == Token::Kind::kString) return Json(token.text);
    if (token.is_name("true")) return Json(true);
    if (token.is_name("false")) return Json(false);
    if (token.is_name("nil")) return Json(nullptr);
    return std::nullopt;
  }

  std::optional<Json> table(int depth) {
    Json list = Json::array(), object = Json::object();
    while (!take("}")) {
      std::optional<std::string> key;
      if (at_ + 1 < tokens_.size() && tokens_[at_].kind == Token::Kind::kName && tokens_[at_ + 1].is_symbol("=")) {
        key = tokens_[at_].text;
        at_ += 2;
      } else if (at_ + 3 < tokens_.size() && symbol("[") && tokens_[at_ + 1].kind == Token::Kind::kString &&
                 tokens_[at_ + 2].is_symbol("]") && tokens_[at_ + 3].is_symbol("=")) {
        key = tokens_[at_ + 1].text;
        at_ += 4;
      }
      auto value = literal(depth + 1);
      if (!value) return std::nullopt;
      if (key)
        object[*key] = std::move(*value);
      else
        list.push_back(std::move(*value));
      if (!take(",") && !take(";") && !symbol("}")) return std::nullopt;
    }
    if (!list.empty() && !object.empty()) return std::nullopt;
    return list.empty() ? object : list;
  }

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
};

bool is_index(const std::string& part) {
  return !part.empty() && part.size() < 7 &&
         std::all_of(part.begin(), part.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

// "train[1]" is "train", "1".
void add_part(std::vector<std::string>& path, std::string_view part, const std::string& whole) {
  const auto bracket = part.find('[');
  const std::string_view name = part.substr(0, bracket);
  if (name.empty()) throw UsageError("--set {}: the key has an empty part", printable(whole));
  path.emplace_back(name);
  if (bracket == std::string_view::npos) return;
  const std::string index(part.substr(bracket + 1, part.size() - bracket - 2));
  if (!part.ends_with(']') || !is_index(index))
    throw UsageError("--set {}: write list items as key[1]", printable(whole));
  path.push_back(index);
}

}  // namespace

Json parse_value(std::string_view text) {
  text = trimmed(text);
  bool closed = true;
  auto tokens = tokens_of(text, &closed);
  // A comment would vanish from the tokens: such a text is no literal.
  if (closed && text.find("--") == std::string_view::npos)
    if (auto value = LiteralParser(std::move(tokens)).run()) return *value;
  return Json(std::string(text));
}

Setting parse_setting(const std::string& text) {
  const auto equals = text.find('=');
  if (equals == std::string::npos) throw UsageError("--set {}: expected key.path=value", printable(text));
  Setting setting;
  setting.text = text;
  const std::string key(trimmed(std::string_view(text).substr(0, equals)));
  for (std::size_t start = 0, end = 0; end != std::string::npos; start = end + 1) {
    end = key.find('.', start);
    add_part(setting.path, std::string_view(key).substr(start, end == std::string::npos ? end : end - start), text);
  }
  setting.value = parse_value(std::string_view(text).substr(equals + 1));
  return setting;
}

std::string setting_path(const Setting& setting) {
  std::string path;
  for (const std::string& part : setting.path)
    path = is_index(part) ? join_path(path, static_cast<std::size_t>(std::stoul(part))) : join_path(path, part);
  return path;
}

void apply_setting(Json& document, const Setting& setting) {
  Json* at = &document;
  for (std::size_t i = 0; i < setting.path.size(); ++i) {
    const std::string& part = setting.path[i];
    const bool last = i + 1 == setting.path.size();
    const bool wants_list = is_index(part) && (at->is_array() || at->empty());
    if (!at->is_object() && !at->is_array()) *at = wants_list ? Json::array() : Json::object();
    if (!wants_list) {
      if (at->is_array() && !at->empty())
        throw UsageError("--set {}: {} is a list; name an item by its number, as in key[1]", printable(setting.text),
                         part);
      if (at->is_array()) *at = Json::object();
      if (last && setting.value.is_null()) {
        at->erase(part);
        return;
      }
      at = &(*at)[part];
      continue;
    }
    if (at->is_object()) *at = Json::array();
    const std::size_t index = std::stoul(part);
    if (index < 1 || index > at->size() + 1 || index > kLargestIndex)
      throw UsageError("--set {}: the list has {} items, so there is no item {}", printable(setting.text), at->size(),
                       index);
    if (last && setting.value.is_null()) {
      if (index <= at->size()) at->erase(at->begin() + static_cast<std::ptrdiff_t>(index - 1));
      return;
    }
    if (index == at->size() + 1) at->push_back(nullptr);
    at = &(*at)[index - 1];
  }
  *at = setting.value;
}

}  // namespace railyard::lua
