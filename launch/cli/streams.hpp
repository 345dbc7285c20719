// Standard input and output as whole texts.
#pragma once

#include <string>
#include <string_view>

namespace railyard::launch {

// All of standard input; UsageError when it cannot be read.
std::string read_standard_input();

// Writes and flushes; RunError when that fails (a closed pipe, a full disk).
void write_standard_output(std::string_view text);

}  // namespace railyard::launch
