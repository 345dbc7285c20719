// railyard topo: what joins what, on this node, in this allocation, or in saved files.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace railyard::launch {

std::function<int()> define_topo(CLI::App& program);

}  // namespace railyard::launch
