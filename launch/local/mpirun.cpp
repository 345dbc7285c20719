// Builds command lines for Open MPI's mpirun (4, and 5 with PRRTE) and MPICH's Hydra.
#include "launch/local/mpirun.hpp"

#include <regex>

#include "runtime/base/error.hpp"

namespace railyard::launch {

std::optional<MpirunKind> recognise_mpirun(std::string_view version_text) {
  const std::string text(version_text);
  std::smatch found;
  if (std::regex_search(text, found, std::regex(R"(\(Open MPI\) (\d+)\.)"))) {
    const int major = std::stoi(found[1]);
    if (major >= 5) return MpirunKind::kOpenMpi5;
    if (major >= 3) return MpirunKind::kOpenMpi4;
    return std::nullopt;
  }
  if (text.find("PRRTE") != std::string::npos) return MpirunKind::kOpenMpi5;
  if (text.find("HYDRA") != std::string::npos) return MpirunKind::kHydra;
  return std::nullopt;
}

Mpirun find_mpirun() {
  std::string seen;
  for (const char* name : {"mpirun", "mpiexec"}) {
    const auto path = find_program(name);
    if (!path) continue;
    const CommandResult result = run_command({*path, "--version"}, 20);
    const std::string text = result.output + result.errors;
    if (const auto kind = recognise_mpirun(text)) return {*path, *kind, text.substr(0, text.find('\n'))};
    seen += fmt::format("{} ({}); ", *path,
                        result.timed_out ? "did not answer within 20 s" : text.substr(0, text.find('\n')));
  }
  if (seen.empty())
    throw UsageError(
        "several ranks need mpirun, and there is none on PATH: install Open MPI (package openmpi-bin), or run one rank "
        "with --ranks 1");
  throw UsageError(
      "several ranks need the mpirun of Open MPI (3 or newer) or MPICH, but PATH has {}set PATH to one of them", seen);
}

StepCommand mpirun_command(const Mpirun& mpirun, const MpirunOptions& options, Environment environment) {
  const bool crowded = options.ranks > options.cores;
  std::vector<std::string> words{mpirun.path, "-n", std::to_string(options.ranks)};
  const auto add = [&](std::initializer_list<const char*> more) {
    words.insert(words.end(), more.begin(), more.end());
  };
  // The user's own setting of any of these wins.
  const auto prefer = [&](const std::string& name, const std::string& value) { environment.try_emplace(name, value); };
  switch (mpirun.kind) {
    case MpirunKind::kOpenMpi4:
      add({"--bind-to", "none"});
      if (options.local) add({"--oversubscribe"});
      prefer("OMPI_ALLOW_RUN_AS_ROOT", "1");
      prefer("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
      // Alone on this machine it needs no remote shell; containers often have none.
      if (options.local) prefer("OMPI_MCA_plm", "isolated");
      prefer("OMPI_MCA_btl_base_warn_component_unused", "0");
      prefer("OMPI_MCA_orte_base_help_aggregate", "1");
      if (crowded) prefer("OMPI_MCA_mpi_yield_when_idle", "1");
      break;
    case MpirunKind::kOpenMpi5:
      add({"--bind-to", "none"});
      if (options.local) add({"--map-by", ":OVERSUBSCRIBE"});
      prefer("PRTE_ALLOW_RUN_AS_ROOT", "1");
      prefer("PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
      prefer("OMPI_ALLOW_RUN_AS_ROOT", "1");
      prefer("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
      if (crowded) prefer("OMPI_MCA_mpi_yield_when_idle", "1");
      break;
    case MpirunKind::kHydra:
      add({"-bind-to", "none"});
      if (options.local) add({"-launcher", "fork"});
      break;
  }
  words.insert(words.end(), options.program.begin(), options.program.end());
  return {std::move(words), std::move(environment)};
}

}  // namespace railyard::launch
