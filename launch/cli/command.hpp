// A command of the program: one file per command in this folder, listed in commands.cpp.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <vector>

namespace railyard::launch {

// `define` adds the subcommand with its options, help and examples to the program and returns what runs it. The
// returned function gives the exit code; errors are thrown (runtime/base/error.hpp) and printed once by main.
struct Command {
  std::function<std::function<int()>(CLI::App& program)> define;
  const char* name;
};

// All commands in the order in which help shows them.
const std::vector<Command>& commands();

}  // namespace railyard::launch
