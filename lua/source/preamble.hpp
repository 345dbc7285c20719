// The lines above the Lua of a job file: a shebang, `#SBATCH` options and other lines for the shell.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace railyard::lua {

// An option of an `#SBATCH` line under its long name without dashes ("nodes" for -N); no value for a flag.
struct SbatchOption {
  std::string name;
  std::optional<std::string> value;
  int line = 0;
};

struct Preamble {
  std::string lua;                    // the whole text with the lines for the shell emptied: line numbers stay true
  std::vector<SbatchOption> options;  // those that sbatch sees, in their order
  std::vector<std::string> warnings;  // "LINE: what": without the file's name
};

// Splits `text`. Lines that begin with '#' before the first Lua token are for the shell. sbatch itself (man sbatch)
// reads `#SBATCH` up to the first line that is neither empty nor begins with '#', takes the place of an option's value
// after '=', after a space, or, for short options, right behind the letter, and ends a line at an unquoted '#'.
Preamble split_preamble(std::string_view text);

}  // namespace railyard::lua
