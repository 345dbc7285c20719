// railyard submit JOB.lua: checks a job and queues it.
#pragma once

#include "launch/cli/command.hpp"

namespace railyard::launch {

std::function<int()> define_submit(CLI::App& program);

}  // namespace railyard::launch
