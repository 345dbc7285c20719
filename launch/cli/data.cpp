// railyard data: dispatch to its subcommands.
#include "launch/cli/data.hpp"

#include <map>
#include <memory>
#include <string>

namespace railyard::launch {

std::function<int()> define_data(CLI::App& program) {
  CLI::App* data = program.add_subcommand("data", "Make, inspect and check data sets; try tokenizers.");
  data->require_subcommand(1);
  auto actions = std::make_shared<std::map<std::string, std::function<int()>>>();
  (*actions)["tokenize"] = define_data_tokenize(*data);
  (*actions)["inspect"] = define_data_inspect(*data);
  (*actions)["verify"] = define_data_verify(*data);
  (*actions)["merge"] = define_data_merge(*data);
  (*actions)["index"] = define_data_index(*data);
  (*actions)["encode"] = define_data_encode(*data);
  (*actions)["decode"] = define_data_decode(*data);
  return [data, actions] { return actions->at(data->get_subcommands().front()->get_name())(); };
}

}  // namespace railyard::launch
