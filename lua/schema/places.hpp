// Puts findings into words with their place: "file:line: key: what", or "--set key=value: key: what" for a key that the
// command line set.
#pragma once

#include <string>
#include <vector>

#include "lua/host/host.hpp"
#include "lua/schema/schema.hpp"
#include "lua/source/literal.hpp"
#include "lua/source/source_map.hpp"

namespace railyard::lua {

class Places {
 public:
  // `constructor` is "job" or "site"; `call_line` where it was called; `sources` the file and what it required.
  Places(const std::vector<SourceText>& sources, const std::string& constructor, int call_line,
         std::vector<Setting> settings = {});

  // "file:line" of the key: its own line where the text has it, else of what is around it.
  [[nodiscard]] std::string of(const std::string& path) const;

  // "file:line: key: what".
  [[nodiscard]] std::string word(const Finding& finding) const;

  // "file:line: what" for keys that a table of the file gives twice.
  [[nodiscard]] std::vector<std::string> repeated_keys() const;

  // Throws UsageError with a line for each finding, in the order of the file; does nothing when there are none.
  void refuse(const std::vector<Finding>& findings) const;

 private:
  struct Found {
    std::size_t source = 0;
    int line = 0;
  };
  [[nodiscard]] Found find(const std::string& path) const;
  [[nodiscard]] const Setting* setting_of(const std::string& path) const;

  std::vector<std::string> names_;
  std::vector<SourceMap> maps_;
  int call_line_;
  std::vector<Setting> settings_;
};

}  // namespace railyard::lua
