// Probes srun and builds its command.
#include "launch/slurm/step.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <regex>

#include "runtime/base/error.hpp"

namespace railyard::launch {
namespace {

// Variables that say which job this is, not how a step should run.
constexpr std::array<std::string_view, 15> kKept = {
    "SLURM_CONF",     "SLURM_JOB_ID",        "SLURM_JOBID",         "SLURM_CLUSTER_NAME",  "SLURM_WORKING_CLUSTER",
    "SLURM_JOB_NAME", "SLURM_SUBMIT_DIR",    "SLURM_SUBMIT_HOST",   "SLURM_RESTART_COUNT", "SLURM_ARRAY_JOB_ID",
    "SLURM_JOB_USER", "SLURM_ARRAY_TASK_ID", "SLURM_JOB_PARTITION", "SLURM_JOB_ACCOUNT",   "SLURM_JWT",
};

bool is_option(const std::string& name) {
  if (!name.starts_with("SLURM_") && !name.starts_with("SBATCH_") && !name.starts_with("SRUN_") &&
      !name.starts_with("PMIX_") && !name.starts_with("PMI_"))
    return false;
  return std::find(kKept.begin(), kKept.end(), name) == kKept.end();
}

// The ranks' own program is the image's; the working directory must be the same inside, since paths are relative to it.
void add_container(const StepContainer& container, std::vector<std::string>& words, std::vector<std::string>& program) {
  const std::string here = std::filesystem::current_path().string();
  if (!program.empty()) program[0] = "railyard";
  std::vector<std::string> mounts = container.mounts;
  mounts.push_back(here);
  if (!container.apptainer) {
    words.push_back("--container-image=" + container.image);
    words.push_back("--container-workdir=" + here);
    for (std::string& mount : mounts)
      if (mount.find(':') == std::string::npos) mount += ":" + mount;
    words.push_back(fmt::format("--container-mounts={}", fmt::join(mounts, ",")));
    return;
  }
  // PMIx's server of Slurm is reached through files of slurmd's spool, which lies below /var by default or /tmp.
  words.insert(words.end(), {"apptainer", "exec", "--nv", "--pwd=" + here});
  for (const std::string& mount : mounts) words.push_back("--bind=" + mount);
  words.push_back(container.image);
}

}  // namespace

std::optional<std::string> SrunAbilities::pmix() const {
  if (std::find(mpi.begin(), mpi.end(), "pmix") != mpi.end()) return "pmix";
  std::optional<std::string> newest;
  for (const std::string& each : mpi)
    if (each.starts_with("pmix_v") && (!newest || each > *newest)) newest = each;
  return newest;
}

SrunAbilities parse_srun(const std::string& version, const std::string& mpi_list) {
  SrunAbilities srun;
  std::smatch found;
  if (std::regex_search(version, found, std::regex(R"(slurm\S* (\d+)\.(\d+))"))) {
    srun.major = std::stoi(found[1]);
    srun.minor = std::stoi(found[2]);
  }
  // One a line in newer versions ("    pmix"), or "srun: pmix" in older ones; "specific pmix plugin versions
  // available: pmix_v4" follows.
  static const std::regex word(R"((none|openmpi|cray_shasta|pmi2|pmix(_v\d+)?)\b)");
  for (std::sregex_iterator at(mpi_list.begin(), mpi_list.end(), word), end; at != end; ++at) {
    // "pmix" in "specific pmix plugin versions" names no flavour that is not listed anyway.
    if (std::find(srun.mpi.begin(), srun.mpi.end(), at->str()) == srun.mpi.end()) srun.mpi.push_back(at->str());
  }
  return srun;
}

SrunAbilities probe_srun() {
  if (!find_program("srun"))
    throw UsageError(
        "this is a Slurm job, but srun is not on PATH; inside a container mount Slurm's clients, or start the ranks "
        "from outside "
        "(srun ... railyard run JOB.lua)");
  const auto version = run_command({"srun", "--version"}, 15);
  const auto list = run_command({"srun", "--mpi=list"}, 15);
  if (version.timed_out || list.timed_out)
    throw UsageError("srun does not answer within 15 s; is Slurm's controller up? (scontrol ping)");
  const SrunAbilities srun = parse_srun(version.output, list.output + list.errors);
  if (srun.major > 0 && (srun.major < 20 || (srun.major == 20 && srun.minor < 11)))
    throw UsageError(
        "Slurm {}.{:02} is older than 20.11, the oldest whose steps can share a job (--overlap); start the ranks "
        "yourself: "
        "srun --mpi=pmix railyard run JOB.lua",
        srun.major, srun.minor);
  return srun;
}

Environment step_environment(const Environment& inherited) {
  Environment environment;
  for (const auto& [name, value] : inherited)
    if (!is_option(name)) environment[name] = value;
  environment["SLURM_PMIX_FENCE"] = "ring";
  return environment;
}

std::optional<StepContainer> step_container(const Json& site) {
  const Json& slurm = site.at("slurm");
  if (slurm.at("container").is_null()) return std::nullopt;
  return StepContainer{.image = slurm.at("container").get<std::string>(),
                       .apptainer = slurm.at("container_runtime") == "apptainer",
                       .mounts = slurm.at("container_mounts").get<std::vector<std::string>>()};
}

StepCommand srun_command(const SrunAbilities& srun, const SrunOptions& options, const Environment& inherited) {
  Environment environment = step_environment(inherited);
  std::vector<std::string> words{"srun",
                                 "--export=ALL",
                                 fmt::format("--nodes={}", options.node_count),
                                 fmt::format("--ntasks={}", options.shape.ranks),
                                 fmt::format("--ntasks-per-node={}", options.shape.per_node),
                                 fmt::format("--cpus-per-task={}", options.shape.cpus_per_rank),
                                 "--mem=0",
                                 "--overlap",
                                 "--distribution=block",
                                 "--cpu-bind=none",
                                 "--input=none"};
  if (!options.nodes.empty()) words.push_back(fmt::format("--nodelist={}", fmt::join(options.nodes, ",")));
  if (options.gpus_per_node && *options.gpus_per_node > 0)
    words.push_back(fmt::format("--gpus-per-node={}", *options.gpus_per_node));
  if (const auto pmix = srun.pmix()) {
    words.push_back("--mpi=" + *pmix);
    // With PMIx a dead rank takes the step down within a second; --kill-on-bad-exit would wait for KillWait.
    words.push_back("--kill-on-bad-exit=0");
  } else {
    words.push_back("--mpi=none");
    words.push_back("--kill-on-bad-exit=1");
  }
  if (options.terminal) words.push_back("--unbuffered");
  std::vector<std::string> program = options.program;
  if (options.container) add_container(*options.container, words, program);
  words.insert(words.end(), program.begin(), program.end());
  return {std::move(words), std::move(environment)};
}

}  // namespace railyard::launch
