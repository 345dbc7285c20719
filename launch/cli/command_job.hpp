// railyard job: what a job file says, what it may say, and job files from Megatron's flags.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace railyard::launch {

// Adds `railyard job` with check, keys and from-megatron; returns what runs the chosen one.
std::function<int()> define_job(CLI::App& program);

}  // namespace railyard::launch
