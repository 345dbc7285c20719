// Words of a shell text that holds command-line flags: a command line, or the arrays and assignments of a launch
// script.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace railyard::lua {

// A word made of text and of variables that the text does not define.
struct ShellWord {
  struct Piece {
    std::string text;
    bool variable = false;  // text is the variable's name
  };
  std::vector<Piece> pieces;
  bool ends_line = false;     // the line ends behind it, not going on after a backslash
  bool ends_command = false;  // the command or the list ends behind it

  // The text where no variable is left, and $NAME where one is.
  [[nodiscard]] std::string plain() const;
  [[nodiscard]] bool has_variable() const;
};

// Reads the words as a shell does: quotes, backslashes, comments, lines that go on after a backslash. NAME=value
// defines a variable, which $NAME and ${NAME} then stand for (${NAME:-text} has a value of its own); NAME=( ... ) and
// NAME+=( ... ) are lists, whose words are words of the text; "${NAME[@]}" and "$@" are left out. Nothing is executed.
std::vector<ShellWord> shell_words(std::string_view text);

}  // namespace railyard::lua
