// Splits a shell text into words.
#include "lua/megatron/shell_words.hpp"

#include <algorithm>
#include <cctype>

namespace railyard::lua {
namespace {

bool is_name_character(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

class Splitter {
 public:
  explicit Splitter(std::string_view text) : text_(text) {}

  std::vector<ShellWord> run() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\\' && peek(1) == '\n')
        at_ += 2;
      else if (c == '\\' && peek(1) == '\r' && peek(2) == '\n')
        at_ += 3;
      else if (c == '#' && !inside_)
        at_ = std::min(text_.find('\n', at_), text_.size());
      else if (std::isspace(static_cast<unsigned char>(c)) != 0 || c == ';' || c == '&' || c == '|' || c == '(' ||
               c == ')')
        separator();
      else
        piece();
    }
    finish();
    return std::move(words_);
  }

 private:
  [[nodiscard]] char peek(std::size_t ahead) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  void separator() {
    // NAME=( opens a list; its name is no word.
    if (text_[at_] == '(' && word_.pieces.size() == 1 && !assigned_name(word_.pieces.front().text).empty() &&
        word_.pieces.front().text.ends_with('=')) {
      word_ = {};
      inside_ = false;
    }
    const char c = text_[at_++];
    finish();
    if (c == '(') ++lists_;
    if (c == ')') lists_ = std::max(lists_ - 1, 0);
    if (words_.empty() || c == '(') return;
    if (c == '\n') words_.back().ends_line = true;
    if (std::isspace(static_cast<unsigned char>(c)) == 0 || (c == '\n' && lists_ == 0))
      words_.back().ends_line = words_.back().ends_command = true;
  }

  void piece() {
    const char c = text_[at_];
    inside_ = true;
    if (c == '\'') {
      const std::size_t end = std::min(text_.find('\'', at_ + 1), text_.size());
      add(text_.substr(at_ + 1, end - at_ - 1));
      at_ = std::min(end + 1, text_.size());
    } else if (c == '"') {
      ++at_;
      while (at_ < text_.size() && text_[at_] != '"') {
        if (text_[at_] == '\\' && at_ + 1 < text_.size()) {
          add(text_.substr(at_ + 1, 1));
          at_ += 2;
        } else if (text_[at_] == '$') {
          variable();
        } else {
          add(text_.substr(at_++, 1));
        }
      }
      at_ = std::min(at_ + 1, text_.size());
    } else if (c == '\\') {
      add(text_.substr(at_ + 1, 1));
      at_ += 2;
    } else if (c == '$') {
      variable();
    } else {
      add(text_.substr(at_++, 1));
    }
  }

  void add(std::string_view text) {
    if (word_.pieces.empty() || word_.pieces.back().variable) word_.pieces.push_back({"", false});
    word_.pieces.back().text += text;
  }

  // $NAME, ${NAME}, ${NAME:-text}; anything else after '$' is left out with its word.
  void variable() {
    ++at_;
    const bool braced = peek(0) == '{';
    if (braced) ++at_;
    const std::size_t start = at_;
    while (is_name_character(peek(0))) ++at_;
    const std::string name(text_.substr(start, at_ - start));
    std::string otherwise;
    bool has_otherwise = false;
    if (braced) {
      const std::size_t end = std::min(text_.find('}', at_), text_.size());
      const std::string_view rest = text_.substr(at_, end - at_);
      at_ = std::min(end + 1, text_.size());
      has_otherwise = rest.starts_with(":-") || rest.starts_with("-");
      if (has_otherwise) {
        otherwise = rest.substr(rest.find('-') + 1);
        std::erase_if(otherwise, [](char c) { return c == '"' || c == '\''; });
      } else if (!rest.empty())
        return skip();
    } else if (name.empty()) {
      at_ = std::min(at_ + 1, text_.size());
      return skip();
    }
    if (const auto known = variables_.find(name); known != variables_.end()) {
      for (const auto& known_piece : known->second.pieces) {
        if (known_piece.variable)
          word_.pieces.push_back(known_piece);
        else
          add(known_piece.text);
      }
    } else if (has_otherwise) {
      add(otherwise);
    } else {
      word_.pieces.push_back({name, true});
    }
  }

  void skip() { skipped_ = true; }

  // The NAME of NAME=... or NAME+=..., or nothing.
  static std::string assigned_name(const std::string& text) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0 || std::isdigit(static_cast<unsigned char>(text[0])) != 0) return "";
    std::string name = text.substr(0, equals);
    if (name.ends_with('+')) name.pop_back();
    return std::all_of(name.begin(), name.end(), is_name_character) ? name : "";
  }

  void finish() {
    if (inside_ && !skipped_ && !word_.pieces.empty()) {
      ShellWord::Piece& first = word_.pieces.front();
      const std::string name = first.variable ? "" : assigned_name(first.text);
      if (name.empty()) {
        words_.push_back(word_);
      } else {
        first.text.erase(0, first.text.find('=') + 1);
        variables_[name] = word_;
      }
    }
    word_ = {};
    inside_ = skipped_ = false;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int lists_ = 0;  // open parentheses
  ShellWord word_;
  bool inside_ = false, skipped_ = false;
  std::vector<ShellWord> words_;
  std::map<std::string, ShellWord> variables_;
};

}  // namespace

std::string ShellWord::plain() const {
  std::string text;
  for (const Piece& piece : pieces) {
    if (piece.variable) text += '$';
    text += piece.text;
  }
  return text;
}

bool ShellWord::has_variable() const {
  return std::any_of(pieces.begin(), pieces.end(), [](const Piece& piece) { return piece.variable; });
}

std::vector<ShellWord> shell_words(std::string_view text) { return Splitter(text).run(); }

}  // namespace railyard::lua
