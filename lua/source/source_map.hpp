// Finds the line of a key in Lua text. The text is not executed: table constructors, the variables that hold them and
// assignments to their fields are read from the tokens, which finds nearly every key of a settings file.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lua/source/lexer.hpp"

namespace railyard::lua {

struct KeyPlace {
  int line = 0;
  bool exact = false;        // the key itself is there; otherwise the line of the table, call or variable around it
  bool table_known = false;  // the table that holds the key, or would hold it, is in the text
};

class SourceMap {
 public:
  // `constructor` is the function whose argument is the document: "job" or "site".
  SourceMap(std::string_view text, std::string constructor);

  // The line of the key at `path` ("train.lr.peak", "data.train[2].path"); nothing when the text has no constructor.
  [[nodiscard]] std::optional<KeyPlace> find(const std::string& path) const;

  // The only line that gives a key of this name anywhere in the text, if there is exactly one.
  [[nodiscard]] std::optional<int> only_line_of(const std::string& key) const;

  // Keys that a constructor gives twice: "LINE: what". Lua silently keeps the last.
  [[nodiscard]] const std::vector<std::string>& repeated_keys() const { return repeated_; }

 private:
  static constexpr int kNone = -1;
  struct Field {
    int line = 0;
    int table = kNone;     // the first constructor inside the value
    std::string variable;  // the value is this variable
  };
  struct Table {
    int line = 0;
    std::map<std::string, Field> fields;
  };
  class Scanner;

  [[nodiscard]] int table_of(const Field& field) const;

  std::vector<Table> tables_;
  std::map<std::string, Field> variables_;         // what was last assigned to a variable
  std::map<std::string, std::vector<int>> lines_;  // of every key
  std::vector<std::string> repeated_;
  std::optional<Field> root_;
};

// The parts of a path: "data.train[2].path" is data, train, 2, path.
std::vector<std::string> path_parts(const std::string& path);

}  // namespace railyard::lua
