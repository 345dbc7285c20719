// railyard bench: measures this machine.
#pragma once

#include "launch/cli/command.hpp"

namespace railyard::launch {

std::function<int()> define_bench(CLI::App& program);

}  // namespace railyard::launch
