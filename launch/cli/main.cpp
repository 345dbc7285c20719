// The program: finds the command, runs it, prints an error once and turns it into an exit code.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <map>
#include <string>

#include "launch/cli/command.hpp"
#include "runtime/base/error.hpp"

namespace {

int report(int exit_code, const char* message) {
  std::fprintf(stderr, "railyard: %s\n", message);
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace railyard;
  CLI::App program{"LLM training for Slurm clusters in one native program.", "railyard"};
  program.set_version_flag("--version", RAILYARD_VERSION);
  program.require_subcommand(1);
  std::map<std::string, std::function<int()>> actions;
  for (const auto& command : launch::commands()) actions[command.name] = command.define(program);
  try {
    // `railyard JOB.lua` is `railyard run JOB.lua`: the form that a shebang line uses.
    std::vector<std::string> words(argv + 1, argv + argc);
    // (sbatch runs a copy without the ending, by the name slurm_script.)
    if (!words.empty() && (words[0].ends_with(".lua") || words[0].ends_with("/slurm_script")))
      words.insert(words.begin(), "run");
    std::reverse(words.begin(), words.end());
    program.parse(words);
    return actions.at(program.get_subcommands().front()->get_name())();
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return program.exit(error);
    return report(kExitUsage, (std::string(error.what()) + "; see railyard --help").c_str());
  } catch (const Error& error) {
    return report(error.exit_code(), error.what());
  } catch (const std::bad_alloc&) {
    return report(kExitFailed, "out of host memory");
  } catch (const std::exception& error) {
    return report(kExitFailed, error.what());
  }
}
