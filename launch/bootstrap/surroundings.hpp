// What started this process, told from its environment alone: nobody, a launcher's rank, or a place to launch from.
#pragma once

#include <optional>
#include <string>

#include "launch/process.hpp"

namespace railyard::launch {

// How a rank meets the others.
enum class Meeting { kNone, kPmix, kSlurmTcp, kMpi };

struct Surroundings {
  Meeting meeting = Meeting::kNone;  // kNone: not a rank of several
  int rank = 0, size = 1;            // as the starter's variables say; for kPmix and kMpi the library decides
  bool under_mpirun = false;         // PMIx (or PMI) is mpirun's, not Slurm's
  bool in_allocation = false;        // Slurm's
  bool in_step = false;              // a task that srun started
  bool heterogeneous = false;        // a Slurm job of several components
  std::string note;                  // what deserves a line ("srun without PMIx: ...")

  // A process that can start ranks itself: not yet one of several.
  [[nodiscard]] bool may_launch() const { return size == 1; }
};

// UsageError when the variables contradict each other.
[[nodiscard]] Surroundings look_around(const Environment& environment);

}  // namespace railyard::launch
