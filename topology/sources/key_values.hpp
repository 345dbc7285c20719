// Lines of Key=Value pairs, as in Slurm's configuration files and scontrol's output.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace railyard::topology {

struct KeyValueLine {
  std::string place;  // "FILE:LINE"
  std::vector<std::pair<std::string, std::string>> pairs;
  // The value of a key in any case; nullptr when absent.
  [[nodiscard]] const std::string* find(std::string_view key) const;
};

// Comments and empty lines are left out. A word without "=" is a UsageError that names its place.
std::vector<KeyValueLine> read_key_values(std::string_view text, const std::string& name);

}  // namespace railyard::topology
