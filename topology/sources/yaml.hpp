// YAML as a tree with line numbers, read with libyaml. Aliases are refused, depth and size are bounded: a small file
// stays small.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace railyard::topology {

struct YamlEntry;

struct YamlNode {
  enum class Kind { kScalar, kList, kMap };
  Kind kind = Kind::kScalar;
  int line = 1;
  std::string scalar;
  std::vector<YamlNode> items;     // of a list
  std::vector<YamlEntry> entries;  // of a map, in the file's order

  // The value of a key of a map; nullptr when this is no map or lacks it.
  [[nodiscard]] const YamlNode* find(std::string_view key) const;
  [[nodiscard]] bool is_true() const {
    return scalar == "true" || scalar == "yes" || scalar == "True" || scalar == "YES";
  }
};

struct YamlEntry {
  std::string key;
  YamlNode value;
};

// The first document. Throws UsageError with "FILE:LINE: ...".
YamlNode read_yaml(std::string_view text, const std::string& name);

}  // namespace railyard::topology
