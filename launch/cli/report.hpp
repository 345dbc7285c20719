// railyard report and railyard status.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace railyard::launch {

std::function<int()> define_report(CLI::App& program);
std::function<int()> define_status(CLI::App& program);

}  // namespace railyard::launch
