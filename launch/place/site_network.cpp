// Reads the site's network values and applies them to nodes and ranks.
#include "launch/place/site_network.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "launch/process.hpp"
#include "topology/sources/source.hpp"

namespace railyard::launch {
namespace {

std::vector<std::string> texts(const Json& list) {
  std::vector<std::string> result;
  if (list.is_array())
    for (const Json& item : list) result.push_back(item.get<std::string>());
  return result;
}

std::string nic_of_port(const std::string& port) { return port.substr(0, port.find(':')); }

std::string told_fabric(const topology::Node& node) {
  std::string fabric;
  for (const topology::Nic& nic : node.nics) {
    if (nic.role != topology::NicRole::kRail || !nic.link_layer) continue;
    if (*nic.link_layer == "InfiniBand") fabric = "ib";
    if (*nic.link_layer == "Ethernet") fabric = "roce";
    if (*nic.link_layer == "EFA") fabric = "efa";
    if (*nic.link_layer == "Slingshot") fabric = "slingshot";
  }
  return fabric;
}

}  // namespace

SiteNetwork SiteNetwork::from_site(const Json& values) {
  SiteNetwork site;
  const Json& fabric = values.at("fabric");
  site.fabric = fabric.at("kind").is_string() ? fabric.at("kind").get<std::string>() : "";
  site.ports = texts(fabric.at("ports"));
  site.socket_interfaces = texts(fabric.at("socket_if"));
  if (fabric.at("gid_index").is_number_integer()) site.gid_index = fabric.at("gid_index").get<int>();
  if (fabric.at("topology").is_string()) site.topology = fabric.at("topology").get<std::string>();
  return site;
}

NetworkFacts network_of(const SiteNetwork& site, const topology::Node& node, const topology::Gpu* gpu) {
  NetworkFacts network;
  network.fabric = !site.fabric.empty() ? site.fabric : told_fabric(node);
  network.gid_index = site.gid_index;
  network.socket_interfaces = site.socket_interfaces;
  for (const topology::Nic& nic : node.nics) {
    if (nic.role != topology::NicRole::kRail || nic.active == false) continue;
    if (site.ports.empty()) {
      network.rail_nics.push_back(nic.name);
      continue;
    }
    for (const std::string& port : site.ports)
      if (nic_of_port(port) == nic.name) network.rail_nics.push_back(port);
  }
  if (gpu == nullptr || !gpu->nic) return network;
  for (const std::string& nic : network.rail_nics)
    if (nic_of_port(nic) == *gpu->nic && !network.nic) network.nic = nic;
  return network;
}

std::optional<topology::Fabric> find_fabric(const SiteNetwork& site, std::vector<std::string>& notes) {
  if (site.topology && *site.topology != "slurm") return std::nullopt;
  if (!environment_value("SLURM_JOB_ID")) return std::nullopt;
  constexpr double kPatience = 10.0;
  const auto answer = run_command({"scontrol", "show", "topology"}, kPatience);
  if (answer.status == 0 && topology::recognise(answer.output) == topology::SourceKind::kSlurmConf)
    return topology::read_source(answer.output, "scontrol show topology").fabric;
  if (site.topology)
    notes.push_back(fmt::format(
        "the site says fabric.topology = \"slurm\", but scontrol show topology {}: all nodes count as equally far",
        answer.timed_out     ? fmt::format("gave no answer within {:.0f} s", kPatience)
        : answer.status == 0 ? "shows no switches"
                             : "failed"));
  return std::nullopt;
}

}  // namespace railyard::launch
