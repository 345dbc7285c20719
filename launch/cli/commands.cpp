// The list of commands, in the order of the help text.
#include "launch/cli/command.hpp"
#include "launch/cli/data.hpp"

namespace railyard::launch {

const std::vector<Command>& commands() {
  static const std::vector<Command> list = {
      {define_data, "data"},
  };
  return list;
}

}  // namespace railyard::launch
