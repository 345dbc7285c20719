// railyard doctor.
#include "launch/cli/command_doctor.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "launch/cli/streams.hpp"
#include "launch/doctor/doctor.hpp"
#include "runtime/base/error.hpp"

namespace railyard::launch {
namespace {

constexpr int kFindings = 1, kUnusable = 2;

struct DoctorOptions {
  bool json = false, list = false;
};

std::string listed() {
  std::string text;
  for (const DoctorCheck& check : doctor_checks()) text += fmt::format("{:<18} {}\n", check.name, check.about);
  return text;
}

int run_doctor(const DoctorOptions& options) {
  if (options.list) {
    write_standard_output(listed());
    return kExitDone;
  }
  const DoctorFacts facts = gather_doctor_facts();
  const Findings findings = examine(facts);
  const bool colour = isatty(STDOUT_FILENO) != 0 && !environment_value("NO_COLOR");
  std::string text;
  bool unusable = false;
  for (const Finding& finding : findings) {
    const bool grave = finding.severity == Finding::Severity::kUnusable;
    unusable = unusable || grave;
    const char* paint = !colour ? "" : grave ? "\033[31m" : "\033[33m";
    text += fmt::format("{}{}{}: {}; remedy: {}\n", paint, finding.check, colour ? "\033[0m" : "", finding.cause,
                        finding.remedy);
  }
  if (options.json)
    text = findings_to_json(facts, findings).dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
  else if (findings.empty())
    text = fmt::format("{}: nothing to complain about ({} checks)\n", facts.host, doctor_checks().size());
  write_standard_output(text);
  return unusable ? kUnusable : findings.empty() ? static_cast<int>(kExitDone) : kFindings;
}

}  // namespace

std::function<int()> define_doctor(CLI::App& program) {
  auto options = std::make_shared<DoctorOptions>();
  CLI::App* command = program.add_subcommand(
      "doctor", "Checks this machine and environment: one line a finding, with its cause and remedy");
  CLI::Option* json = command->add_flag("--json", options->json, "One JSON document, schema 1");
  command->add_flag("--list", options->list, "Print what is checked")->excludes(json);
  command->footer(
      "Exit code: 0 nothing found, 1 findings, 2 no run can work like this. Nothing is changed.\n"
      "Examples:\n"
      "  railyard doctor                                     this shell\n"
      "  srun -N4 --ntasks-per-node=1 -l railyard doctor     every node of an allocation, as its tasks see it\n"
      "  mpirun -n 2 railyard doctor                         what mpirun leaves of CPUs, limits and variables");
  return [options] { return run_doctor(*options); };
}

}  // namespace railyard::launch
