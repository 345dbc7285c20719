// Computes the environment of a rank.
#include "launch/bootstrap/rank_environment.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace railyard::launch {
namespace {

Environment computed(const EnvironmentSources& sources) {
  const NetworkFacts& network = sources.network;
  Environment ours;
  ours["OMP_NUM_THREADS"] = std::to_string(sources.threads);
  if (sources.cuda) {
    // Ordinals then follow PCI addresses, as in nvidia-smi and in the placement.
    ours["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID";
    ours["CUDA_MODULE_LOADING"] = "LAZY";
  }
  const bool chooses_itself = network.fabric == "efa" || network.fabric == "slingshot" || network.fabric == "tcp";
  if (!chooses_itself && !network.rail_nics.empty()) {
    const auto with_port = [](const std::string& nic) { return nic.find(':') == std::string::npos ? nic + ":1" : nic; };
    std::vector<std::string> nics;
    for (const std::string& nic : network.rail_nics) nics.push_back(with_port(nic));
    ours["NCCL_IB_HCA"] = "=" + fmt::format("{}", fmt::join(nics, ","));
    if (network.nic) ours["UCX_NET_DEVICES"] = with_port(*network.nic);
  }
  if (network.fabric == "roce" && network.gid_index) ours["NCCL_IB_GID_INDEX"] = std::to_string(*network.gid_index);
  if (!network.socket_interfaces.empty())
    // "=" asks for exact names: NCCL otherwise takes a prefix, and bond0 matches bond0.2093.
    ours["NCCL_SOCKET_IFNAME"] = "=" + fmt::format("{}", fmt::join(network.socket_interfaces, ","));
  return ours;
}

}  // namespace

Environment rank_environment(const EnvironmentSources& sources, std::vector<std::string>& notes) {
  Environment wanted = computed(sources);
  for (const auto& [name, value] : sources.site) wanted[name] = value;
  for (auto entry = wanted.begin(); entry != wanted.end();) {
    const auto inherited = sources.inherited.find(entry->first);
    if (inherited == sources.inherited.end()) {
      ++entry;
      continue;
    }
    if (inherited->second != entry->second && entry->first != "OMP_NUM_THREADS")
      notes.push_back(
          fmt::format("{}={} as the environment says, instead of {}", entry->first, inherited->second, entry->second));
    // Slurm sites often export OMP_NUM_THREADS for all jobs; ours follows from the cores that the rank has.
    entry = entry->first == "OMP_NUM_THREADS" ? std::next(entry) : wanted.erase(entry);
  }
  for (const auto& [name, value] : sources.site_hook) wanted[name] = value;
  for (const auto& [name, value] : sources.job) wanted[name] = value;
  std::erase_if(wanted, [&](const auto& entry) {
    const auto inherited = sources.inherited.find(entry.first);
    return inherited != sources.inherited.end() && inherited->second == entry.second;
  });
  return wanted;
}

}  // namespace railyard::launch
