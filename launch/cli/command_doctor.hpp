// railyard doctor.
#pragma once

#include "launch/cli/command.hpp"

namespace railyard::launch {

std::function<int()> define_doctor(CLI::App& program);

}  // namespace railyard::launch
