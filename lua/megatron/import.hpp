// Turns Megatron-LM's command-line flags into a job file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace railyard::lua {

struct MegatronImport {
  std::string job;                         // the text of a job file
  std::vector<std::string> inexpressible;  // "--flag value: why": what the job file does not say
};

// Reads `flags` (a command line, or a launch script's arrays: see shell_words.hpp) and writes the job. Megatron's
// defaults that differ from ours are written out, so that the job means the same. A variable that the text does not
// define becomes env.NAME. `source` is named in errors, `name` is the job's. UsageError when there is no flag at all.
MegatronImport import_megatron(std::string_view flags, const std::string& source, const std::string& name);

}  // namespace railyard::lua
