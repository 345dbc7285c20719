// railyard check-node: one line of JSON about this node.
#include "launch/cli/command_check_node.hpp"

#include <memory>
#include <string>

#include "launch/cli/streams.hpp"
#include "launch/health/node_check.hpp"
#include "runtime/base/error.hpp"

namespace railyard::launch {

std::function<int()> define_check_node(CLI::App& program) {
  struct Words {
    std::string run_dir;
    int gpus = 0;
    bool no_speed = false;
  };
  auto words = std::make_shared<Words>();
  CLI::App* command = program.add_subcommand("check-node", "Prints one line of JSON about the health of this node");
  command->group("");  // the launcher's: not in the list of commands
  command->add_option("--run-dir", words->run_dir, "Also look at its disk, and at what ranks of it have left here");
  command->add_option("--gpus", words->gpus, "Ranks of this node that need a GPU")->check(CLI::Range(0, 1024));
  command->add_flag("--no-speed", words->no_speed, "Measure no matrix product");
  command->footer("Example:\n  srun --overlap -N4 --ntasks-per-node=1 railyard check-node");
  return [words] {
    const NodeReport report =
        check_this_node({.run_dir = words->run_dir, .gpus_needed = words->gpus, .speed = !words->no_speed});
    write_standard_output(report.to_json().dump() + "\n");
    return kExitDone;
  };
}

}  // namespace railyard::launch
