// The list of commands, in the order of the help text.
#include "launch/cli/command.hpp"

namespace railyard::launch {

const std::vector<Command>& commands() {
  static const std::vector<Command> list = {};
  return list;
}

}  // namespace railyard::launch
