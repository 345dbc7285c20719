// railyard ckpt: one function per subcommand.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace railyard::launch {

// Adds `railyard ckpt` with its subcommands; returns what runs the chosen one.
std::function<int()> define_ckpt(CLI::App& program);

// Each adds one subcommand and returns what runs it. Output goes to standard output, notes and progress to standard
// error.
std::function<int()> define_ckpt_inspect(CLI::App& ckpt);
std::function<int()> define_ckpt_verify(CLI::App& ckpt);
std::function<int()> define_ckpt_diff(CLI::App& ckpt);
std::function<int()> define_ckpt_reshard(CLI::App& ckpt);
std::function<int()> define_ckpt_export(CLI::App& ckpt);
std::function<int()> define_ckpt_import(CLI::App& ckpt);

}  // namespace railyard::launch
