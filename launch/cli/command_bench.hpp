// railyard bench: measures this machine.
#pragma once

#include "launch/cli/command.hpp"

namespace railyard::launch {

std::function<int()> define_bench(CLI::App& program);
// Its parts: whole steps here, single operations and collectives in bench_operations.cpp.
std::function<int()> define_bench_gemm(CLI::App& bench);
std::function<int()> define_bench_attention(CLI::App& bench);
std::function<int()> define_bench_comm(CLI::App& bench);

}  // namespace railyard::launch
