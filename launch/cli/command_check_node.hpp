// railyard check-node: what the launcher asks every node before it starts ranks there; not for people.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace railyard::launch {

std::function<int()> define_check_node(CLI::App& program);

}  // namespace railyard::launch
