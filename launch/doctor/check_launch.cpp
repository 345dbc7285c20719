// Checks of what starts ranks: mpirun, Slurm's clients, PMIx, and variables that somebody left behind.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "launch/bootstrap/surroundings.hpp"
#include "launch/doctor/doctor.hpp"
#include "launch/slurm/step.hpp"
#include "runtime/base/error.hpp"

namespace railyard::launch {
namespace {

bool in_slurm_job(const DoctorFacts& facts) { return !facts.variable("SLURM_JOB_ID").empty(); }

}  // namespace

void check_mpirun(const DoctorFacts& facts, Findings& findings) {
  if (!facts.mpirun_problem.empty())
    findings.push_back({"", facts.mpirun_problem, "put the mpirun of Open MPI (3 or newer) or MPICH first on PATH"});
  if (!facts.mpirun && facts.mpirun_problem.empty() && !facts.srun)
    findings.push_back({"", "neither mpirun nor srun is on PATH: runs have one rank only",
                        "install Open MPI (package openmpi-bin), or load its module"});
}

void check_parts(const DoctorFacts& facts, Findings& findings) {
  if (!facts.mpi_part_problem.empty())
    findings.push_back(
        {"", fmt::format("librailyard_mpi.so cannot be used: {}", facts.mpi_part_problem),
         "install the MPI that it was built with (package libopenmpi3 or its module): several ranks need "
         "it"});
  if (!facts.pmix_part_problem.empty())
    findings.push_back({"", fmt::format("librailyard_pmix.so cannot be used: {}", facts.pmix_part_problem),
                        "install libpmix (package libpmix2); without it ranks cannot join srun --mpi=pmix or mpirun"});
}

void check_pmi(const DoctorFacts& facts, Findings& findings) {
  if (!facts.srun) return;
  const SrunAbilities srun = parse_srun(facts.srun_version, facts.srun_mpi);
  if (srun.major == 0) {
    // Outside a cluster the clients may be installed without a configuration.
    if (!in_slurm_job(facts)) return;
    findings.push_back({"", "srun does not answer", "see whether Slurm's controller is up (scontrol ping)"});
    return;
  }
  if (srun.major < 20 || (srun.major == 20 && srun.minor < 11))
    findings.push_back(
        {"", fmt::format("Slurm {}.{:02} is older than 20.11, whose steps cannot share a job", srun.major, srun.minor),
         "start ranks yourself: srun --mpi=pmix railyard run JOB.lua"});
  if (!srun.pmix())
    findings.push_back({"",
                        fmt::format("srun has no PMIx (it lists {}): ranks it starts do not know each other",
                                    srun.mpi.empty() ? "nothing" : fmt::format("{}", fmt::join(srun.mpi, ", "))),
                        facts.mpirun
                            ? "railyard run starts them with mpirun instead; or install Slurm's PMIx plugin (package "
                              "slurm-wlm-basic-plugins)"
                            : "install Slurm's PMIx plugin (package slurm-wlm-basic-plugins), or put mpirun on PATH",
                        facts.mpirun ? Finding::Severity::kWarning : Finding::Severity::kUnusable});
  const std::string tasks = facts.variable("SLURM_STEP_NUM_TASKS");
  if (!facts.variable("SLURM_PROCID").empty() && !tasks.empty() && tasks != "1" &&
      facts.variable("PMIX_NAMESPACE").empty() && facts.variable("OMPI_COMM_WORLD_SIZE").empty())
    findings.push_back(
        {"",
         fmt::format("this step of {} tasks was started without PMIx (SLURM_MPI_TYPE={})", tasks,
                     facts.variable("SLURM_MPI_TYPE").empty() ? "not set" : facts.variable("SLURM_MPI_TYPE")),
         "srun --mpi=pmix; railyard run otherwise starts a step of its own, other MPI programs start as "
         "many single ranks"});
}

void check_slurm_clients(const DoctorFacts& facts, Findings& findings) {
  if (!in_slurm_job(facts)) return;
  if (!facts.srun)
    findings.push_back(
        {"", "this is a Slurm job, but srun is not on PATH (inside a container?)",
         "mount Slurm's clients and /run/munge into the container, or start ranks from outside: srun ... "
         "railyard run JOB.lua"});
  else if (!facts.scontrol)
    findings.push_back(
        {"", "scontrol is not on PATH: switches, time limit and requeueing are unknown", "mount it beside srun"});
  if (facts.variable("SLURM_JOB_NODELIST").empty())
    findings.push_back({"", "SLURM_JOB_ID is set, but SLURM_JOB_NODELIST is not",
                        "pass all SLURM_* variables into the container", Finding::Severity::kUnusable});
}

void check_stale_environment(const DoctorFacts& facts, Findings& findings) {
  try {
    (void)look_around(facts.environment);
  } catch (const UsageError& error) {
    findings.push_back(
        {"", error.what(), "start from a fresh shell, or unset these variables", Finding::Severity::kUnusable});
    return;
  }
  const bool ranks = !facts.variable("OMPI_COMM_WORLD_SIZE").empty() || !facts.variable("PMIX_NAMESPACE").empty() ||
                     !facts.variable("PMI_SIZE").empty();
  if (ranks && facts.pmix_server_there == false)
    findings.push_back(
        {"",
         "variables of mpirun or PMIx (OMPI_COMM_WORLD_*, PMIX_*) are set, but whoever set them is gone: "
         "this process would wait for ranks that never come",
         "unset them: unset ${!PMIX_*} ${!OMPI_*} ${!PMI_*}", Finding::Severity::kUnusable});
  // Inherited by every later srun of the job.
  const bool in_step = !facts.variable("SLURM_STEP_ID").empty();
  if (in_slurm_job(facts) && !in_step)
    for (const char* name : {"SLURM_CPU_BIND", "SLURM_EXACT", "SLURM_EXCLUSIVE", "SLURM_GPU_BIND", "SLURM_WHOLE"})
      if (const auto value = facts.variable(name); !value.empty())
        findings.push_back({"", fmt::format("{}={} changes every srun of this job", name, value),
                            "railyard run drops it for its own step; for others unset it"});
}

}  // namespace railyard::launch
