// The terminal view.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "topology/compare.hpp"
#include "topology/hostlist.hpp"
#include "topology/render/render.hpp"

namespace railyard::topology {
namespace {

class Printer {
 public:
  explicit Printer(bool colour) : colour_(colour) {}
  void node(const Node& node);
  void fabric(const Fabric& fabric);
  void line(const std::string& text = "") { out_ += text + "\n"; }
  void bold(const std::string& text) { line(paint(text, "1")); }
  void warn(const std::string& text) { line(paint("warning: " + text, "33")); }
  [[nodiscard]] std::string take() { return std::move(out_); }

 private:
  void matrix(const Node& node);
  void rail_lines(const Node& node);
  [[nodiscard]] std::string paint(const std::string& text, const std::string& code) const {
    return colour_ ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : text;
  }
  [[nodiscard]] std::string rail_code(const std::optional<int>& rail) const {
    static constexpr const char* kCodes[] = {"36", "32", "35", "34", "96", "92", "95", "94"};
    return rail ? kCodes[*rail % 8] : "0";
  }

  bool colour_;
  std::string out_;
};

std::string nic_title(const Node& node, std::size_t nic) { return fmt::format("NIC{} {}", nic, node.nics[nic].name); }

void Printer::matrix(const Node& node) {
  const auto gpus = node.gpus.size(), devices = gpus + node.nics.size();
  std::vector<std::string> columns, rows;
  for (const auto& gpu : node.gpus) {
    columns.push_back(fmt::format("GPU{}", gpu.index));
    rows.push_back(gpu_label(gpu));
  }
  for (std::size_t n = 0; n < node.nics.size(); ++n) {
    columns.push_back(fmt::format("NIC{}", n));
    rows.push_back(nic_title(node, n));
  }
  std::size_t title = 0;
  for (const auto& row : rows) title = std::max(title, row.size());
  std::string header = fmt::format("{:{}}", "", title);
  for (const auto& column : columns) header += fmt::format("  {:<5}", column);
  while (header.ends_with(' ')) header.pop_back();
  bold(header);
  for (std::size_t a = 0; a < devices; ++a) {
    std::string text = fmt::format("{:<{}}", rows[a], title);
    for (std::size_t b = 0; b < devices; ++b) {
      const auto cell = matrix_cell(node, static_cast<int>(a), static_cast<int>(b));
      const auto padded = fmt::format("{:<5}", cell);
      const bool on_rail = a < gpus && b >= gpus && node.gpus[a].nic == node.nics[b - gpus].name;
      text += "  " + (cell.starts_with("NV") ? paint(padded, "1")
                      : on_rail              ? paint(padded, rail_code(node.gpus[a].rail))
                                             : padded);
    }
    while (text.ends_with(' ')) text.pop_back();
    line(text);
  }
}

void Printer::rail_lines(const Node& node) {
  std::vector<std::vector<std::string>> table;
  for (const auto& gpu : node.gpus) {
    const Nic* nic = gpu.nic ? node.find_nic(*gpu.nic) : nullptr;
    const std::string none = gpu.near_nics && gpu.near_nics->empty() ? "none" : "?";
    std::string state = nic == nullptr ? "" : nic->active ? (*nic->active ? "active" : "DOWN") : "state ?";
    if (nic != nullptr && nic->rate_gbps) state += fmt::format(" {} Gb/s", *nic->rate_gbps);
    if (nic != nullptr && nic->link_layer) state += " " + *nic->link_layer;
    std::string ties;
    if (gpu.near_nics && gpu.near_nics->size() > 1) ties = fmt::format("(of {})", fmt::join(*gpu.near_nics, ", "));
    table.push_back({gpu_label(gpu), "rail " + (gpu.rail ? std::to_string(*gpu.rail) : none), gpu.nic.value_or(none),
                     gpu.path ? std::string(path_name(*gpu.path)) : "?",
                     "numa " + (gpu.numa ? std::to_string(*gpu.numa) : "?"),
                     "cpus " + (gpu.cpus ? (gpu.cpus->empty() ? "none" : gpu.cpus->list()) : "?"), state, ties});
  }
  std::vector<std::size_t> widths(8);
  for (const auto& row : table)
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  for (std::size_t r = 0; r < table.size(); ++r) {
    std::string text;
    for (std::size_t c = 0; c < table[r].size(); ++c)
      if (widths[c] > 0) text += fmt::format("{}{:<{}}", c == 0 ? "" : "  ", table[r][c], widths[c]);
    while (text.ends_with(' ')) text.pop_back();
    line(paint(text, rail_code(node.gpus[r].rail)));
  }
}

void Printer::node(const Node& node) {
  std::set<std::string> models;
  for (const auto& gpu : node.gpus) models.insert(gpu.name.value_or(""));
  models.erase("");
  line(fmt::format("{} GPU{}{}, {} NIC{}; read from {}", node.gpus.size(), node.gpus.size() == 1 ? "" : "s",
                   models.empty() ? "" : fmt::format(" ({})", fmt::join(models, ", ")), node.nics.size(),
                   node.nics.size() == 1 ? "" : "s", node.source));
  if (node.gpus.empty() && !node.nics.empty()) {
    std::vector<std::string> names;
    for (const auto& nic : node.nics)
      names.push_back(fmt::format("{}{}", nic.name, nic.active == false ? " (DOWN)" : ""));
    line(fmt::format("NICs: {}", fmt::join(names, ", ")));
  }
  if (!node.gpus.empty()) {
    line();
    matrix(node);
  }
  if (!node.gpus.empty()) {
    line();
    rail_lines(node);
    line();
    const auto domains = nvlink_domains(node);
    if (!domains)
      line("NVLink domains: unknown");
    else if (domains->empty())
      line("NVLink domains: none");
    else
      for (const auto& domain : *domains)
        line(fmt::format("NVLink domain: GPU {} ({})", fmt::join(domain, ","), domain_text(node, domain)));
    std::set<std::string> racks;
    for (const auto& gpu : node.gpus)
      if (gpu.rack) racks.insert(*gpu.rack);
    if (!racks.empty()) line(fmt::format("NVLink rack: {}", fmt::join(racks, ", ")));
  }
  std::vector<std::string> others;
  for (const auto& nic : node.nics)
    if (nic.role == NicRole::kOther) others.push_back(nic.name);
  if (!others.empty()) line(fmt::format("other NICs (storage, management): {}", fmt::join(others, ", ")));
  for (const auto& warning : node.warnings) warn(warning);
  for (const auto& note : node.notes) line("note: " + note);
}

void Printer::fabric(const Fabric& fabric) {
  bold(fmt::format("Fabric: {}", fabric.kind));
  line("read from " + fabric.source);
  std::map<std::string, std::vector<const Switch*>> children;
  for (const auto& sw : fabric.switches) children[sw.parent.value_or("")].push_back(&sw);
  std::vector<std::pair<const Switch*, int>> stack;
  const auto push = [&](const std::string& parent, int depth) {
    const auto it = children.find(parent);
    if (it == children.end()) return;
    for (auto child = it->second.rbegin(); child != it->second.rend(); ++child) stack.emplace_back(*child, depth);
  };
  push("", 0);
  while (!stack.empty()) {
    const auto [sw, depth] = stack.back();
    stack.pop_back();
    line(fmt::format(
        "{:{}}{}{}", "", depth * 2, sw->name,
        sw->nodes.empty() ? "" : fmt::format("  {} nodes: {}", sw->nodes.size(), fold_hostlist(sw->nodes))));
    push(sw->name, depth + 1);
  }
  for (const auto& block : fabric.blocks)
    line(fmt::format("block {}  {} nodes: {}", block.name, block.nodes.size(), fold_hostlist(block.nodes)));
  if (!fabric.block_sizes.empty()) line(fmt::format("block sizes: {}", fmt::join(fabric.block_sizes, ", ")));
  for (const auto& warning : fabric.warnings) warn(warning);
  for (const auto& note : fabric.notes) line("note: " + note);
}

}  // namespace

std::string gpu_label(const Gpu& gpu) {
  return gpu.partition ? fmt::format("GPU{} ({})", gpu.index, *gpu.partition) : fmt::format("GPU{}", gpu.index);
}

std::string matrix_cell(const Node& node, int a, int b) {
  if (a == b) return "X";
  const auto gpus = static_cast<int>(node.gpus.size());
  if (a < gpus && b < gpus) {
    const auto& links = node.gpus[static_cast<std::size_t>(a)].nvlink;
    if (links)
      if (const auto it = links->find(node.gpus[static_cast<std::size_t>(b)].index); it != links->end())
        return it->second ? fmt::format("NV{}", *it->second) : "NV#";
  }
  const auto path = node.paths.at(a, b);
  return path ? std::string(path_name(*path)) : "?";
}

std::string domain_text(const Node& node, const std::vector<int>& domain) {
  std::set<int> counts;
  bool unknown = false;
  for (const int a : domain)
    if (const auto& links = node.gpus[static_cast<std::size_t>(*node.position_of(a))].nvlink)
      for (const int b : domain)
        if (const auto it = links->find(b); it != links->end()) {
          if (it->second)
            counts.insert(*it->second);
          else
            unknown = true;
        }
  std::string text;
  if (!counts.empty())
    text = counts.size() == 1 ? fmt::format("NV{}", *counts.begin())
                              : fmt::format("NV{} to NV{}", *counts.begin(), *counts.rbegin());
  if (unknown) text += text.empty() ? "link count unknown" : ", some counts unknown";
  return text + (is_clique(node, domain) ? ", all to all" : ", not all to all");
}

std::string group_title(const Machine& machine, const std::vector<int>& nodes) {
  std::vector<std::string> names;
  for (const int n : nodes)
    if (const auto& name = machine.nodes[static_cast<std::size_t>(n)].name) names.push_back(*name);
  const std::string named = names.empty() ? "name unknown" : fold_hostlist(names);
  return nodes.size() == 1 ? fmt::format("Node {}", named) : fmt::format("{} alike nodes: {}", nodes.size(), named);
}

std::string render_text(const Machine& machine, bool colour) {
  Printer printer(colour);
  const auto groups = group_alike(machine.nodes);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (g > 0) printer.line();
    printer.bold(group_title(machine, groups[g].nodes) + (g > 0 ? "  [odd]" : ""));
    printer.node(machine.nodes[static_cast<std::size_t>(groups[g].nodes[0])]);
  }
  if (machine.fabric) {
    if (!groups.empty()) printer.line();
    printer.fabric(*machine.fabric);
  }
  return printer.take();
}

}  // namespace railyard::topology
