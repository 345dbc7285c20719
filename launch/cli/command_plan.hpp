// railyard plan JOB.lua: what a job would need and how fast it would be.
#pragma once

#include "launch/cli/command.hpp"

namespace railyard::launch {

std::function<int()> define_plan(CLI::App& program);

}  // namespace railyard::launch
