// Expected facts of a topology file, as readable lines:
//   PATH = JSON        the value at PATH of `railyard topo --json`; a * in PATH gathers a list over an array
//   PATH ~ TEXT        the value (written as JSON) contains TEXT
//   findings = N       number of warnings of all nodes and the fabric
//   error ~ TEXT       the file is refused with a message that contains TEXT
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/base/json.hpp"

namespace railyard::topology {

struct Expectation {
  int line;
  std::string path, value;
  bool contains;
};

std::vector<Expectation> read_expectations(const std::filesystem::path& file);

// Reads `topology_file` and checks every expectation of `expect_file` as GoogleTest failures.
void check_expectations(const std::filesystem::path& topology_file, const std::filesystem::path& expect_file);

}  // namespace railyard::topology
