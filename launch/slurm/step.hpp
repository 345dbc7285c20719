// The srun command that starts the ranks: the same whatever the user's environment holds.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/slurm/allocation.hpp"
#include "launch/supervisor.hpp"
#include "runtime/base/json.hpp"

namespace railyard::launch {

// What the installed srun is able to do.
struct SrunAbilities {
  int major = 0, minor = 0;                               // of Slurm, 22.05 is 22 and 5
  std::vector<std::string> mpi;                           // srun --mpi=list
  [[nodiscard]] std::optional<std::string> pmix() const;  // the flavour to ask for
};

// Asks srun. UsageError when it is missing, does not answer, or is older than what we can drive (20.11).
[[nodiscard]] SrunAbilities probe_srun();
// The same from what `srun --version` and `srun --mpi=list` print.
[[nodiscard]] SrunAbilities parse_srun(const std::string& version, const std::string& mpi_list);

// The environment of a step of ours: what was inherited without SLURM_*, SBATCH_*, SRUN_* and PMI options, which change
// steps in ways nobody expects; variables that name the job stay. SLURM_PMIX_FENCE=ring is added: Slurm's default fence
// is no barrier across nodes.
[[nodiscard]] Environment step_environment(const Environment& inherited);

// Ranks in a container: by the pyxis plugin of srun, or by `apptainer exec`. The image must hold a railyard on its PATH
// that is of the same version as the launcher.
struct StepContainer {
  std::string image;
  bool apptainer = false;
  std::vector<std::string> mounts;  // "/host:/inside" or "/both"
};

// What the site's slurm.container, container_runtime and container_mounts ask for; nothing without an image.
[[nodiscard]] std::optional<StepContainer> step_container(const Json& site);

struct SrunOptions {
  StepShape shape;
  std::vector<std::string> nodes;  // to run on; empty: all of the allocation
  int node_count = 1;
  std::optional<int> gpus_per_node;
  bool terminal = false;
  std::vector<std::string> program;
  std::optional<StepContainer> container;
};

// The command, in step_environment(inherited).
[[nodiscard]] StepCommand srun_command(const SrunAbilities& srun, const SrunOptions& options,
                                       const Environment& inherited);

}  // namespace railyard::launch
