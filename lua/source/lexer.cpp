// Splits Lua text into tokens.
#include "lua/source/lexer.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

namespace railyard::lua {
namespace {

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
int hex_value(char c) { return is_digit(c) ? c - '0' : (std::tolower(static_cast<unsigned char>(c)) - 'a') + 10; }
bool is_hex(char c) { return std::isxdigit(static_cast<unsigned char>(c)) != 0; }

void append_utf8(std::string& out, unsigned code) {
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xC0U | (code >> 6U));
    out += static_cast<char>(0x80U | (code & 0x3FU));
  } else if (code < 0x10000) {
    out += static_cast<char>(0xE0U | (code >> 12U));
    out += static_cast<char>(0x80U | ((code >> 6U) & 0x3FU));
    out += static_cast<char>(0x80U | (code & 0x3FU));
  } else {
    out += static_cast<char>(0xF0U | ((code >> 18U) & 0x07U));
    out += static_cast<char>(0x80U | ((code >> 12U) & 0x3FU));
    out += static_cast<char>(0x80U | ((code >> 6U) & 0x3FU));
    out += static_cast<char>(0x80U | (code & 0x3FU));
  }
}

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  std::vector<Token> run() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\n') {
        ++line_;
        ++at_;
      } else if (std::isspace(static_cast<unsigned char>(c)) != 0) {
        ++at_;
      } else if (text_.substr(at_, 2) == "--") {
        comment();
      } else if (is_letter(c)) {
        const std::size_t start = at_;
        while (at_ < text_.size() && (is_letter(text_[at_]) || is_digit(text_[at_]))) ++at_;
        add(Token::Kind::kName, std::string(text_.substr(start, at_ - start)), line_);
      } else if (is_digit(c) || (c == '.' && is_digit(peek(1)))) {
        number();
      } else if (c == '"' || c == '\'') {
        quoted(c);
      } else if (c == '[' && long_level()) {
        const int line = line_;
        std::string value = long_text(*long_level());
        add(Token::Kind::kString, std::move(value), line);
      } else {
        symbol();
      }
    }
    return std::move(tokens_);
  }

  [[nodiscard]] bool closed() const { return closed_; }

 private:
  [[nodiscard]] char peek(std::size_t ahead) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  void add(Token::Kind kind, std::string text, int line) { tokens_.push_back({kind, std::move(text), line}); }

  // The level of a long bracket that opens here: the number of its '='.
  [[nodiscard]] std::optional<std::size_t> long_level() const {
    std::size_t i = at_ + 1;
    while (i < text_.size() && text_[i] == '=') ++i;
    if (i < text_.size() && text_[i] == '[') return i - at_ - 1;
    return std::nullopt;
  }

  std::string long_text(std::size_t level) {
    const std::string close = long_close(level);
    std::size_t start = at_ + level + 2;
    std::size_t end = text_.find(close, start);
    closed_ = end != std::string_view::npos;
    if (!closed_) end = text_.size();
    std::string value(text_.substr(start, end - start));
    line_ += static_cast<int>(std::count(value.begin(), value.end(), '\n'));
    at_ = std::min(end + close.size(), text_.size());
    if (value.starts_with("\r\n"))
      value.erase(0, 2);
    else if (value.starts_with('\n'))
      value.erase(0, 1);
    return value;
  }

  void comment() {
    at_ += 2;
    if (peek(0) == '[')
      if (const auto level = long_level()) {
        long_text(*level);
        return;
      }
    at_ = std::min(text_.find('\n', at_), text_.size());
  }

  void number() {
    const std::size_t start = at_;
    const bool hexadecimal = peek(0) == '0' && (peek(1) == 'x' || peek(1) == 'X');
    if (hexadecimal) at_ += 2;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      const bool exponent = hexadecimal ? (c == 'p' || c == 'P') : (c == 'e' || c == 'E');
      if (exponent && (peek(1) == '+' || peek(1) == '-'))
        at_ += 2;
      else if (is_letter(c) || is_digit(c) || c == '.')
        ++at_;
      else
        break;
    }
    add(Token::Kind::kNumber, std::string(text_.substr(start, at_ - start)), line_);
  }

  void quoted(char quote) {
    const int line = line_;
    std::string value;
    ++at_;
    while (at_ < text_.size() && text_[at_] != quote && text_[at_] != '\n') {
      if (text_[at_] == '\\')
        escape(value);
      else
        value += text_[at_++];
    }
    closed_ = at_ < text_.size() && text_[at_] == quote;
    if (closed_) ++at_;
    add(Token::Kind::kString, std::move(value), line);
  }

  void escape(std::string& value) {
    const char c = peek(1);
    at_ = std::min(at_ + 2, text_.size());
    switch (c) {
      case 'a':
        value += '\a';
        return;
      case 'b':
        value += '\b';
        return;
      case 'f':
        value += '\f';
        return;
      case 'n':
        value += '\n';
        return;
      case 'r':
        value += '\r';
        return;
      case 't':
        value += '\t';
        return;
      case 'v':
        value += '\v';
        return;
      case '\n':
        ++line_;
        value += '\n';
        return;
      case 'z':
        while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0)
          if (text_[at_++] == '\n') ++line_;
        return;
      case 'x':
        if (is_hex(peek(0)) && is_hex(peek(1))) {
          value += static_cast<char>(16 * hex_value(peek(0)) + hex_value(peek(1)));
          at_ += 2;
        }
        return;
      case 'u':
        unicode(value);
        return;
      default:
        break;
    }
    if (!is_digit(c)) {
      value += c;
      return;
    }
    int code = c - '0';
    for (int i = 0; i < 2 && is_digit(peek(0)); ++i) code = 10 * code + (text_[at_++] - '0');
    value += static_cast<char>(code);
  }

  void unicode(std::string& value) {
    if (peek(0) != '{') return;
    unsigned code = 0;
    for (++at_; is_hex(peek(0)); ++at_)
      code = std::min(code, 0xFFFFFFU) * 16 + static_cast<unsigned>(hex_value(peek(0)));
    if (peek(0) == '}') ++at_;
    append_utf8(value, std::min(code, 0x10FFFFU));
  }

  void symbol() {
    static constexpr std::array<std::string_view, 10> kLong{
        "...", "..", "==", "~=", "<=", ">=", "//", "::", "<<", ">>"};
    for (const std::string_view known : kLong) {
      if (text_.substr(at_, known.size()) != known) continue;
      at_ += known.size();
      return add(Token::Kind::kSymbol, std::string(known), line_);
    }
    add(Token::Kind::kSymbol, std::string(1, text_[at_++]), line_);
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool closed_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::string long_close(std::size_t level) {
  std::string close(level + 2, '=');
  close.front() = close.back() = ']';
  return close;
}

std::vector<Token> tokens_of(std::string_view text, bool* closed) {
  Lexer lexer(text);
  auto tokens = lexer.run();
  if (closed != nullptr) *closed = lexer.closed();
  return tokens;
}

}  // namespace railyard::lua
