// railyard run JOB.lua: trains.
#pragma once

#include "launch/cli/command.hpp"

namespace railyard::launch {

std::function<int()> define_run(CLI::App& program);

}  // namespace railyard::launch
