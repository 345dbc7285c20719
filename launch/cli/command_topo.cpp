// railyard topo.
#include "launch/cli/command_topo.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <iterator>
#include <memory>

#include "launch/process.hpp"
#include "launch/slurm/collect_nodes.hpp"
#include "runtime/base/error.hpp"
#include "runtime/base/json.hpp"
#include "topology/compare.hpp"
#include "topology/json.hpp"
#include "topology/merge.hpp"
#include "topology/render/render.hpp"
#include "topology/sources/source.hpp"

namespace railyard::launch {
namespace {

constexpr double kCollectSeconds = 60;

struct TopoOptions {
  std::vector<std::string> inputs;
  bool json = false, check = false, this_node = false;
  std::string format, output;
};

topology::Machine read_inputs(const std::vector<std::string>& inputs) {
  std::vector<topology::Machine> machines;
  for (const auto& input : inputs) {
    if (input != "-") {
      machines.push_back(topology::read_source(read_file(input), input));
      continue;
    }
    const std::string text{std::istreambuf_iterator<char>(std::cin), {}};
    machines.push_back(topology::read_source(text, "standard input"));
  }
  return topology::merge_machines(std::move(machines));
}

topology::Machine read_machine(const TopoOptions& options) {
  topology::Machine machine;
  if (!options.inputs.empty())
    machine = read_inputs(options.inputs);
  else if (!options.this_node && inside_allocation())
    machine = collect_nodes(kCollectSeconds);
  else
    machine.nodes.push_back(topology::read_live_node());
  topology::warn_odd_nodes(machine);
  return machine;
}

// The format: --json, --of, the suffix of -o, else text.
std::string chosen_format(const TopoOptions& options) {
  if (options.json && !options.format.empty() && options.format != "json")
    throw UsageError("--json and --of {} exclude each other; give one", options.format);
  if (options.json) return "json";
  if (!options.format.empty()) return options.format;
  for (const char* suffix : {"svg", "dot", "json"})
    if (options.output.ends_with(std::string(".") + suffix)) return suffix;
  return "txt";
}

std::vector<std::string> findings(const topology::Machine& machine) {
  std::vector<std::string> lines;
  for (const auto& node : machine.nodes)
    for (const auto& warning : node.warnings) lines.push_back(node.name ? *node.name + ": " + warning : warning);
  if (machine.fabric)
    for (const auto& warning : machine.fabric->warnings) lines.push_back("fabric: " + warning);
  return lines;
}

std::string rendered(const topology::Machine& machine, const std::string& format, bool colour) {
  // Node names and models come from files: bytes that are not UTF-8 are replaced rather than refused.
  if (format == "json")
    return topology::machine_to_json(machine).dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
  if (format == "svg") return topology::render_svg(machine);
  if (format == "dot") return topology::render_dot(machine);
  return topology::render_text(machine, colour);
}

int run_topo(const TopoOptions& options) {
  const auto format = chosen_format(options);
  const auto machine = read_machine(options);
  const auto found = findings(machine);
  const bool to_stdout = options.output.empty() || options.output == "-";
  const bool colour = to_stdout && isatty(STDOUT_FILENO) != 0 && !environment_value("NO_COLOR");
  // A bare --check prints findings alone.
  const bool picture = !options.check || options.json || !options.format.empty() || !options.output.empty();
  if (picture) {
    const auto text = rendered(machine, format, colour);
    if (!to_stdout)
      write_file_atomic(options.output, text);
    else if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
      throw RunError("standard output cannot be written");
  } else {
    for (const auto& line : found) fmt::print("{}\n", line);
    if (found.empty()) fmt::print("no findings\n");
  }
  return options.check && !found.empty() ? kExitFailed : kExitDone;
}

}  // namespace

std::function<int()> define_topo(CLI::App& program) {
  auto* command = program.add_subcommand("topo", "Shows what joins what: GPUs, NVLink domains, NICs, rails, switches");
  auto options = std::make_shared<TopoOptions>();
  command
      ->add_option("--input", options->inputs,
                   "A saved file instead of this machine (- is standard input); several files of one machine are "
                   "merged. Kinds: lstopo XML, NCCL topology XML "
                   "or INFO log, nvidia-smi topo -m, Slurm topology.conf / topology.yaml / scontrol show topology / "
                   "gres.conf, topograph model, topo --json")
      ->type_name("FILE")
      ->allow_extra_args(false);
  command->add_flag("--json", options->json, "One JSON document, schema 1; unknown values are null");
  command->add_option("--of", options->format, "Output format")->check(CLI::IsMember({"txt", "svg", "dot", "json"}));
  command->add_option("-o,--output", options->output, "Write to a file; its suffix chooses the format unless --of does")
      ->type_name("FILE");
  command->add_flag("--check", options->check,
                    "Exit 0 when nothing is wrong, 1 with findings (printed one a line), 2 when unreadable");
  command->add_flag("--this-node", options->this_node, "This node alone, also inside an allocation");
  command->footer(
      "Examples:\n"
      "  railyard topo                                     this node, or every node of the allocation\n"
      "  railyard topo --input lstopo.xml --input smi.txt  two views of one machine, merged\n"
      "  railyard topo --of svg -o node.svg                a picture\n"
      "  railyard topo --check                             for a prolog or a health check");
  return [options] { return run_topo(*options); };
}

}  // namespace railyard::launch
