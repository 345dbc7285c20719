// railyard sample: text from a checkpoint of a run.
#pragma once

#include "launch/cli/command.hpp"

namespace railyard::launch {

std::function<int()> define_sample(CLI::App& program);

}  // namespace railyard::launch
