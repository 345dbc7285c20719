// Compares nodes by what matters for training.
#include "topology/compare.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

namespace railyard::topology {
namespace {

std::string address_text(const std::optional<PciAddress>& pci) { return pci ? pci->text() : "?"; }

std::string number_text(const std::optional<int>& number) { return number ? std::to_string(*number) : "?"; }

std::string gpu_text(const Gpu& gpu) {
  std::string text = fmt::format("{}|{}|{}|{}|{}|{}|", gpu.index, gpu.name.value_or("?"), address_text(gpu.pci),
                                 number_text(gpu.numa), gpu.partition.value_or(""), gpu.nic.value_or("?"));
  text += gpu.path ? path_name(*gpu.path) : "?";
  if (!gpu.nvlink)
    text += "|?";
  else
    for (const auto& [peer, links] : *gpu.nvlink) text += fmt::format("|{}:{}", peer, number_text(links));
  return text;
}

std::string nic_text(const Nic& nic) {
  return fmt::format("{}|{}|{}|{}|{}", nic.name, address_text(nic.pci),
                     nic.active ? (*nic.active ? "up" : "down") : "?", nic.rate_gbps.value_or(-1),
                     nic.link_layer.value_or("?"));
}

std::string signature(const Node& node) {
  std::string text;
  for (const auto& gpu : node.gpus) text += gpu_text(gpu) + "\n";
  for (const auto& nic : node.nics) text += nic_text(nic) + "\n";
  return text;
}

std::set<std::string> active_nics(const Node& node) {
  std::set<std::string> names;
  for (const auto& nic : node.nics)
    if (nic.active.value_or(true)) names.insert(nic.name);
  return names;
}

std::vector<std::string> differences(const Node& usual, const Node& odd) {
  std::vector<std::string> found;
  if (odd.gpus.size() != usual.gpus.size())
    found.push_back(fmt::format("{} GPUs instead of {}", odd.gpus.size(), usual.gpus.size()));
  const auto here = active_nics(odd), there = active_nics(usual);
  std::vector<std::string> missing, added;
  std::set_difference(there.begin(), there.end(), here.begin(), here.end(), std::back_inserter(missing));
  std::set_difference(here.begin(), here.end(), there.begin(), there.end(), std::back_inserter(added));
  if (!missing.empty()) {
    std::string rails;
    for (const auto& gpu : usual.gpus)
      if (gpu.nic && std::find(missing.begin(), missing.end(), *gpu.nic) != missing.end())
        rails += fmt::format("{}{}", rails.empty() ? ", the rail of GPU " : ",", gpu.index);
    found.push_back(fmt::format("{} of {} NICs are up: {} missing or down{}", here.size(), there.size(),
                                fmt::join(missing, ", "), rails));
  }
  if (!added.empty()) found.push_back(fmt::format("has {} besides", fmt::join(added, ", ")));
  if (odd.gpus.size() != usual.gpus.size()) return found;
  std::vector<std::string> order_here, order_there;
  std::vector<int> names, links, rails;
  for (std::size_t g = 0; g < usual.gpus.size(); ++g) {
    const Gpu &a = usual.gpus[g], &b = odd.gpus[g];
    order_there.push_back(address_text(a.pci));
    order_here.push_back(address_text(b.pci));
    if (a.name != b.name) names.push_back(b.index);
    if (a.nvlink != b.nvlink) links.push_back(b.index);
    if (a.nic != b.nic || a.path != b.path) rails.push_back(b.index);
  }
  if (order_here != order_there) {
    const bool same_set = std::is_permutation(order_here.begin(), order_here.end(), order_there.begin());
    found.push_back(same_set ? fmt::format("GPUs are in another PCI order: {}", fmt::join(order_here, " "))
                             : fmt::format("GPUs at other PCI addresses: {}", fmt::join(order_here, " ")));
  }
  if (!names.empty())
    found.push_back(
        fmt::format("GPU {}: another model ({})", fmt::join(names, ","), odd.gpus[0].name.value_or("unknown")));
  if (!links.empty()) found.push_back(fmt::format("GPU {}: other NVLinks", fmt::join(links, ",")));
  if (!rails.empty() && missing.empty())
    found.push_back(fmt::format("GPU {}: another rail or path", fmt::join(rails, ",")));
  if (found.empty()) found.emplace_back("NIC addresses, rates or NUMA nodes differ");
  return found;
}

}  // namespace

std::vector<NodeGroup> group_alike(const std::vector<Node>& nodes) {
  std::map<std::string, std::size_t> known;
  std::vector<NodeGroup> groups;
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    const auto [it, fresh] = known.try_emplace(signature(nodes[n]), groups.size());
    if (fresh) groups.emplace_back();
    groups[it->second].nodes.push_back(static_cast<int>(n));
  }
  const auto weight = [&](const NodeGroup& group) {
    const Node& node = nodes[static_cast<std::size_t>(group.nodes[0])];
    return std::pair(group.nodes.size(), active_nics(node).size() + node.gpus.size());
  };
  const auto first = std::max_element(groups.begin(), groups.end(),
                                      [&](const NodeGroup& a, const NodeGroup& b) { return weight(a) < weight(b); });
  if (first != groups.end()) std::rotate(groups.begin(), first, first + 1);
  for (std::size_t g = 1; g < groups.size(); ++g)
    groups[g].differences = differences(nodes[static_cast<std::size_t>(groups[0].nodes[0])],
                                        nodes[static_cast<std::size_t>(groups[g].nodes[0])]);
  return groups;
}

void warn_odd_nodes(Machine& machine) {
  const auto groups = group_alike(machine.nodes);
  for (std::size_t g = 1; g < groups.size(); ++g)
    for (const int n : groups[g].nodes)
      for (const auto& difference : groups[g].differences)
        machine.nodes[static_cast<std::size_t>(n)].warnings.push_back("unlike the other nodes: " + difference);
}

}  // namespace railyard::topology
