// railyard site: the site file that counts here, with the origin of each value, and what is doubtful about it.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace railyard::launch {

// Adds `railyard site`; returns what runs it.
std::function<int()> define_site(CLI::App& program);

}  // namespace railyard::launch
