// A libFuzzer target for one topology parser, chosen by RAILYARD_PARSER (its function's name) when compiled;
// "read_source" is all of them behind recognition, with rails, pictures and JSON. Only UsageError may leave a parser.
#include <cstdint>
#include <string_view>

#include "runtime/base/error.hpp"
#include "runtime/base/json.hpp"
#include "topology/compare.hpp"
#include "topology/json.hpp"
#include "topology/merge.hpp"
#include "topology/rails.hpp"
#include "topology/render/render.hpp"
#include "topology/sources/source.hpp"

namespace {

using namespace railyard;

// The document reader in the shape of the other parsers.
[[maybe_unused]] topology::Machine read_json(std::string_view text, const std::string& name) {
  return topology::machine_from_json(parse_json(text, name), name);
}

void use(topology::Machine machine) {
  for (auto& node : machine.nodes) topology::assign_rails(node);
  topology::warn_odd_nodes(machine);
  if (machine.nodes.size() > 1) {
    topology::Machine first, second;
    first.nodes.push_back(machine.nodes[0]);
    second.nodes.push_back(machine.nodes[1]);
    first.fabric = second.fabric = machine.fabric;
    (void)topology::merge_machines({first, second});
  }
  (void)topology::render_text(machine, true);
  (void)topology::render_svg(machine);
  (void)topology::render_dot(machine);
  (void)topology::machine_to_json(machine).dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace railyard::topology;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    use(RAILYARD_PARSER(text, "input"));
  } catch (const railyard::UsageError&) {
    return 0;
  }
  return 0;
}
