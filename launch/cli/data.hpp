// railyard data: a function per subcommand.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace railyard::launch {

// Adds `railyard data` with its subcommands; returns what runs the chosen one.
std::function<int()> define_data(CLI::App& program);

// Each adds one subcommand and returns what runs it. Output goes to standard output, notes and progress to standard
// error.
std::function<int()> define_data_tokenize(CLI::App& data);
std::function<int()> define_data_inspect(CLI::App& data);
std::function<int()> define_data_verify(CLI::App& data);
std::function<int()> define_data_merge(CLI::App& data);
std::function<int()> define_data_index(CLI::App& data);
std::function<int()> define_data_encode(CLI::App& data);
std::function<int()> define_data_decode(CLI::App& data);

}  // namespace railyard::launch
