// Reads constructors, variables and field assignments from the tokens of a Lua text.
#include "lua/source/source_map.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace railyard::lua {
namespace {

constexpr int kMaximumDepth = 200;  // Lua's own limit on nested constructors
constexpr int kMaximumLinks = 32;   // variables that lead to variables

template <std::size_t N>
bool is_one_of(const Token& token, Token::Kind kind, const std::array<std::string_view, N>& texts) {
  return token.kind == kind && std::find(texts.begin(), texts.end(), token.text) != texts.end();
}

bool opens_block(const Token& token) {
  return is_one_of<4>(token, Token::Kind::kName, {"function", "if", "do", "repeat"});
}
bool closes_block(const Token& token) { return is_one_of<2>(token, Token::Kind::kName, {"end", "until"}); }

}  // namespace

class SourceMap::Scanner {
 public:
  Scanner(SourceMap& map, const std::vector<Token>& tokens, const std::string& constructor)
      : map_(map), tokens_(tokens), constructor_(constructor) {}

  void run() {
    while (at_ < tokens_.size()) {
      if (!assignment()) expression_piece();
    }
  }

 private:
  [[nodiscard]] bool symbol(std::size_t at, std::string_view text) const {
    return at < tokens_.size() && tokens_[at].is_symbol(text);
  }
  [[nodiscard]] bool name(std::size_t at) const {
    return at < tokens_.size() && tokens_[at].kind == Token::Kind::kName;
  }

  // NAME{.NAME} = value: remembers the variable, or adds the field to the table that the variable holds.
  bool assignment() {
    if (!name(at_) || (at_ > 0 && (symbol(at_ - 1, ".") || symbol(at_ - 1, ":")))) return false;
    std::vector<std::size_t> parts{at_};
    std::size_t next = at_ + 1;
    while (symbol(next, ".") && name(next + 1)) {
      parts.push_back(next + 1);
      next += 2;
    }
    if (symbol(next, "<") && name(next + 1) && symbol(next + 2, ">")) next += 3;  // local x <const> = ...
    if (!symbol(next, "=")) return false;
    const int line = tokens_[parts.back()].line;
    at_ = next + 1;
    Field field = value(false, 0);
    field.line = line;
    if (parts.size() == 1) {
      map_.variables_[tokens_[parts.front()].text] = field;
      return true;
    }
    map_.lines_[tokens_[parts.back()].text].push_back(line);
    const auto variable = map_.variables_.find(tokens_[parts.front()].text);
    int table = variable == map_.variables_.end() ? kNone : map_.table_of(variable->second);
    for (std::size_t i = 1; i + 1 < parts.size() && table != kNone; ++i) {
      const auto& fields = map_.tables_[static_cast<std::size_t>(table)].fields;
      const auto inner = fields.find(tokens_[parts[i]].text);
      table = inner == fields.end() ? kNone : map_.table_of(inner->second);
    }
    if (table != kNone) map_.tables_[static_cast<std::size_t>(table)].fields[tokens_[parts.back()].text] = field;
    return true;
  }

  // One token outside of any constructor; a call of the constructor function gives the root.
  void expression_piece() {
    if (symbol(at_, "{")) {
      constructor(0);
      return;
    }
    const bool root = name(at_) && tokens_[at_].text == constructor_ && (symbol(at_ + 1, "{") || symbol(at_ + 1, "("));
    if (!root) {
      ++at_;
      return;
    }
    const int line = tokens_[at_++].line;
    Field field = value(false, 0);
    field.line = line;
    map_.root_ = field;
  }

  // Reads an expression as far as it shows what the value is. Inside a constructor it ends at ',' ';' or '}' of that
  // constructor; at statement level after the first constructor or variable.
  Field value(bool inside, int depth) {
    Field field;
    int nesting = 0;
    bool only_name = true;
    bool first = true;
    while (at_ < tokens_.size()) {
      const Token& token = tokens_[at_];
      if (nesting == 0 && inside && (token.is_symbol(",") || token.is_symbol(";") || token.is_symbol("}"))) break;
      if (token.is_symbol("{")) {
        const int table = constructor(depth + 1);
        if (field.table == kNone) field.table = table;
        if (!inside) return field;
        first = false;
        continue;
      }
      if (token.is_symbol("(") || token.is_symbol("[") || opens_block(token)) ++nesting;
      if (token.is_symbol(")") || token.is_symbol("]") || closes_block(token)) --nesting;
      if (nesting < 0) break;
      if (token.kind == Token::Kind::kName && first && !opens_block(token))
        field.variable = token.text;
      else if (!(first && token.is_symbol("(")))
        only_name = only_name && nesting == 0 && token.is_symbol(")");
      first = first && token.is_symbol("(");
      ++at_;
      if (!inside && nesting == 0 && !continues()) break;
    }
    if (!only_name || field.table != kNone) field.variable.clear();
    return field;
  }

  // Whether the expression at statement level goes on with the next token: a call, a field, or its argument.
  [[nodiscard]] bool continues() const {
    if (at_ >= tokens_.size()) return false;
    const Token& token = tokens_[at_];
    const Token& before = tokens_[at_ - 1];
    const bool after_dot = before.is_symbol(".") || before.is_symbol(":");
    return after_dot || token.kind == Token::Kind::kString ||
           is_one_of<6>(token, Token::Kind::kSymbol, {".", ":", "(", "{", "[", ")"});
  }

  int constructor(int depth) {
    const int table = static_cast<int>(map_.tables_.size());
    map_.tables_.push_back({tokens_[at_].line, {}});
    ++at_;
    std::size_t position = 0;
    while (at_ < tokens_.size() && !symbol(at_, "}")) {
      if (symbol(at_, ",") || symbol(at_, ";")) {
        ++at_;
        continue;
      }
      if (depth > kMaximumDepth) {  // Lua refuses such a text; skip what it would not have read
        ++at_;
        continue;
      }
      const std::size_t start = at_;
      std::string key;
      const int line = tokens_[at_].line;
      if (name(at_) && symbol(at_ + 1, "=")) {
        key = tokens_[at_].text;
        at_ += 2;
      } else if (symbol(at_, "[") && at_ + 1 < tokens_.size() && tokens_[at_ + 1].kind == Token::Kind::kString &&
                 symbol(at_ + 2, "]") && symbol(at_ + 3, "=")) {
        key = tokens_[at_ + 1].text;
        at_ += 4;
      } else if (symbol(at_, "[")) {
        while (at_ < tokens_.size() && !symbol(at_, "=") && !symbol(at_, "}")) ++at_;
        if (symbol(at_, "=")) ++at_;
      } else {
        key = std::to_string(++position);
      }
      Field field = value(true, depth);
      field.line = line;
      add(table, key, field, position > 0 && key == std::to_string(position));
      if (at_ == start) ++at_;
    }
    ++at_;
    return table;
  }

  void add(int table, const std::string& key, const Field& field, bool positional) {
    if (key.empty()) return;
    auto& fields = map_.tables_[static_cast<std::size_t>(table)].fields;
    if (!positional) map_.lines_[key].push_back(field.line);
    const auto known = fields.find(key);
    if (known != fields.end() && !positional)
      map_.repeated_.push_back(fmt::format("{}: {} is given twice, here and at line {}; the last one counts",
                                           field.line, key, known->second.line));
    fields[key] = field;
  }

  SourceMap& map_;
  const std::vector<Token>& tokens_;
  const std::string& constructor_;
  std::size_t at_ = 0;
};

SourceMap::SourceMap(std::string_view text, std::string constructor) {
  const auto tokens = tokens_of(text);
  Scanner(*this, tokens, constructor).run();
}

int SourceMap::table_of(const Field& field) const {
  const Field* at = &field;
  for (int links = 0; at->table == kNone && !at->variable.empty() && links < kMaximumLinks; ++links) {
    const auto found = variables_.find(at->variable);
    if (found == variables_.end()) return kNone;
    at = &found->second;
  }
  return at->table;
}

std::optional<KeyPlace> SourceMap::find(const std::string& path) const {
  if (!root_) return std::nullopt;
  KeyPlace place{root_->line, path.empty(), true};
  const Field* at = &*root_;
  for (const std::string& part : path_parts(path)) {
    const int table = table_of(*at);
    place.exact = false;
    place.table_known = table != kNone;
    if (table == kNone) return place;
    const auto& fields = tables_[static_cast<std::size_t>(table)].fields;
    const auto found = fields.find(part);
    if (found == fields.end()) return place;
    at = &found->second;
    place = {at->line, true, true};
  }
  return place;
}

std::optional<int> SourceMap::only_line_of(const std::string& key) const {
  const auto found = lines_.find(key);
  if (found == lines_.end() || found->second.size() != 1) return std::nullopt;
  return found->second.front();
}

std::vector<std::string> path_parts(const std::string& path) {
  std::vector<std::string> parts;
  std::string part;
  for (const char c : path) {
    if (c == '.' || c == '[') {
      if (!part.empty()) parts.push_back(std::exchange(part, {}));
    } else if (c != ']') {
      part += c;
    }
  }
  if (!part.empty()) parts.push_back(part);
  return parts;
}

}  // namespace railyard::lua
