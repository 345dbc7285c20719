// Starting ranks with mpirun: on this machine, or over a Slurm allocation whose srun cannot start MPI ranks.
#pragma once

#include <string>
#include <vector>

#include "launch/process.hpp"
#include "launch/supervisor.hpp"

namespace railyard::launch {

enum class MpirunKind { kOpenMpi4, kOpenMpi5, kHydra };

struct Mpirun {
  std::string path;
  MpirunKind kind = MpirunKind::kOpenMpi4;
  std::string version;  // its first line
};

// Finds mpirun (or mpiexec) on PATH and asks which it is. UsageError with the remedy when there is none, or an unknown
// one.
[[nodiscard]] Mpirun find_mpirun();
// What `mpirun --version` says, to its kind; nothing when it is unknown.
[[nodiscard]] std::optional<MpirunKind> recognise_mpirun(std::string_view version_text);

struct MpirunOptions {
  int ranks = 1;
  int cores = 1;                     // of this machine: with more ranks, waiting ranks must yield
  bool local = true;                 // all ranks on this machine
  std::vector<std::string> program;  // what each rank runs
};

// The command of one start. Ranks bind themselves, so mpirun binds nothing.
[[nodiscard]] StepCommand mpirun_command(const Mpirun& mpirun, const MpirunOptions& options, Environment environment);

}  // namespace railyard::launch
