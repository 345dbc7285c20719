// Reads the variables of Slurm, PMIx, Open MPI and PMI.
#include "launch/bootstrap/surroundings.hpp"

#include <charconv>

#include "runtime/base/error.hpp"

namespace railyard::launch {
namespace {

std::optional<std::string> text(const Environment& environment, const char* name) {
  const auto found = environment.find(name);
  if (found == environment.end() || found->second.empty()) return std::nullopt;
  return found->second;
}

std::optional<long> number(const Environment& environment, const char* name) {
  const auto value = text(environment, name);
  if (!value) return std::nullopt;
  long result = 0;
  const auto [end, error] = std::from_chars(value->data(), value->data() + value->size(), result);
  if (error != std::errc{} || end != value->data() + value->size())
    throw UsageError("the environment variable {} is \"{}\", not a whole number", name, *value);
  return result;
}

// Slurm numbers its own steps (batch script, interactive shell, external) from the top of 32 bits.
constexpr long kFirstSpecialStep = 0xfffffff0;

}  // namespace

Surroundings look_around(const Environment& environment) {
  Surroundings around;
  around.in_allocation = text(environment, "SLURM_JOB_ID").has_value();
  around.heterogeneous = number(environment, "SLURM_HET_SIZE").value_or(1) > 1;
  const auto step = number(environment, "SLURM_STEP_ID");
  const long tasks = number(environment, "SLURM_STEP_NUM_TASKS").value_or(1);
  around.in_step =
      around.in_allocation && step && *step < kFirstSpecialStep && number(environment, "SLURM_PROCID").has_value();

  // mpirun inside a step: its daemon's Slurm variables are inherited and say nothing about this rank.
  if (const auto size = number(environment, "OMPI_COMM_WORLD_SIZE")) {
    around.under_mpirun = true;
    around.size = static_cast<int>(*size);
    around.rank = static_cast<int>(number(environment, "OMPI_COMM_WORLD_RANK").value_or(0));
    around.meeting = text(environment, "PMIX_NAMESPACE") ? Meeting::kPmix : Meeting::kMpi;
  } else if (around.in_step) {
    around.size = static_cast<int>(tasks);
    around.rank = static_cast<int>(number(environment, "SLURM_PROCID").value_or(0));
    if (around.size > 1) {
      around.meeting = text(environment, "PMIX_NAMESPACE") ? Meeting::kPmix : Meeting::kSlurmTcp;
      if (around.meeting == Meeting::kSlurmTcp)
        around.note = "srun was started without --mpi=pmix: the ranks meet by TCP";
    }
  } else if (const auto pmi = number(environment, "PMI_SIZE")) {
    around.under_mpirun = true;
    around.size = static_cast<int>(*pmi);
    around.rank = static_cast<int>(number(environment, "PMI_RANK").value_or(0));
    around.meeting = Meeting::kMpi;
  } else if (text(environment, "PMIX_NAMESPACE") && text(environment, "PMIX_RANK")) {
    // A PMIx server that is neither Slurm's nor Open MPI 4's (prun, Flux). Only the library knows the size.
    around.under_mpirun = true;
    around.rank = static_cast<int>(number(environment, "PMIX_RANK").value_or(0));
    around.size = 0;
    around.meeting = Meeting::kPmix;
  }
  if (around.size == 1) around.meeting = Meeting::kNone;
  if (around.size < 0 || (around.size > 0 && (around.rank < 0 || around.rank >= around.size)))
    throw UsageError("the environment says that this is rank {} of {}; are variables of another job or step inherited?",
                     around.rank, around.size);
  return around;
}

}  // namespace railyard::launch
