// railyard tune: the micro-batch size that trains fastest, by trying them.
#pragma once

#include "launch/cli/command.hpp"

namespace railyard::launch {

std::function<int()> define_tune(CLI::App& program);

}  // namespace railyard::launch
