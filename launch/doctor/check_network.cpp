// Checks of the network: which NICs, ports, addresses and interfaces NCCL and MPI would take.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <sstream>

#include "launch/doctor/doctor.hpp"

namespace railyard::launch {
namespace {

std::vector<std::string> comma_list(const std::string& text) {
  std::vector<std::string> items;
  std::istringstream stream(text);
  for (std::string item; std::getline(stream, item, ',');)
    if (!item.empty()) items.push_back(item);
  return items;
}

// A list of NCCL's: "^" leaves out, "=" asks for exact names, else items are beginnings of names.
struct NcclList {
  bool without = false, exact = false;
  std::vector<std::string> items;

  explicit NcclList(std::string text) {
    if (text.starts_with('^')) {
      without = true;
      text.erase(0, 1);
    }
    if (text.starts_with('=')) {
      exact = true;
      text.erase(0, 1);
    }
    items = comma_list(text);
  }
  [[nodiscard]] static std::string name_of(const std::string& item) { return item.substr(0, item.find(':')); }
  [[nodiscard]] bool takes(const std::string& item, const std::string& name) const {
    return exact ? name_of(item) == name : name.starts_with(name_of(item));
  }
  [[nodiscard]] std::vector<std::string> chosen(const std::vector<std::string>& names) const {
    std::vector<std::string> found;
    for (const auto& name : names)
      if (std::any_of(items.begin(), items.end(), [&](const auto& item) { return takes(item, name); }) != without)
        found.push_back(name);
    return found;
  }
};

std::vector<std::string> rail_nics(const DoctorFacts& facts) {
  std::vector<std::string> names;
  for (const auto& nic : facts.node.nics)
    if (nic.role == topology::NicRole::kRail) names.push_back(nic.name);
  return names;
}

bool known(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Names that one item takes beyond the one it spells: mlx5_1 also takes mlx5_10.
void report_prefixes(const NcclList& list, const std::vector<std::string>& names, const char* variable,
                     Findings& findings) {
  if (list.exact || list.without) return;
  for (const auto& item : list.items) {
    const std::string name = NcclList::name_of(item);
    std::vector<std::string> more;
    for (const auto& other : names)
      if (other != name && other.starts_with(name)) more.push_back(other);
    if (known(names, name) && !more.empty())
      findings.push_back(
          {"",
           fmt::format("{}: {} is taken for a beginning, and matches {} too", variable, name, fmt::join(more, ", ")),
           fmt::format("ask for exact names: {}={}{}", variable, "=", fmt::join(list.items, ","))});
  }
}

std::uint32_t address_of(const std::string& text) {
  std::uint32_t value = 0;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, '.');)
    value = (value << 8U) | static_cast<std::uint32_t>(std::atoi(part.c_str()));
  return value;
}

// "10.0.0.7/16" to its network, "10.0.0.0/16" as a pair.
std::pair<std::uint32_t, int> network_of(const std::string& text) {
  const auto slash = text.find('/');
  const int bits = slash == std::string::npos ? 32 : std::clamp(std::atoi(text.c_str() + slash + 1), 0, 32);
  const std::uint32_t mask = bits == 0 ? 0 : ~std::uint32_t{0} << static_cast<unsigned>(32 - bits);
  return {address_of(text.substr(0, slash)) & mask, bits};
}

bool virtual_interface(const std::string& name) {
  for (const char* prefix : {"lo", "docker", "virbr", "veth", "br-", "cni", "flannel", "cali", "podman"})
    if (name.starts_with(prefix)) return true;
  return false;
}

}  // namespace

void check_hca(const DoctorFacts& facts, Findings& findings) {
  std::vector<std::string> all, rails = rail_nics(facts);
  for (const auto& nic : facts.node.nics)
    if (nic.rdma.value_or(true)) all.push_back(nic.name);
  if (const std::string hca = facts.variable("NCCL_IB_HCA"); !hca.empty()) {
    const NcclList list(hca);
    for (const auto& item : list.items)
      if (std::none_of(all.begin(), all.end(), [&](const auto& name) { return list.takes(item, name); }))
        findings.push_back({"", fmt::format("NCCL_IB_HCA={} names {}, which this host does not have", hca, item),
                            all.empty() ? "unset it: there is no RDMA NIC here"
                                        : fmt::format("unset it, so that railyard sets it per node; NICs here: {}",
                                                      fmt::join(all, ", "))});
    report_prefixes(list, all, "NCCL_IB_HCA", findings);
    const auto chosen = list.chosen(all);
    std::vector<std::string> others, missing;
    for (const auto& name : chosen)
      if (!rails.empty() && !known(rails, name)) others.push_back(name);
    for (const auto& name : rails)
      if (!known(chosen, name)) missing.push_back(name);
    if (!others.empty())
      findings.push_back({"",
                          fmt::format("NCCL_IB_HCA={} takes {}, which no GPU is near (storage or management?)", hca,
                                      fmt::join(others, ", ")),
                          fmt::format("NCCL_IB_HCA=={}, or unset it", fmt::join(rails, ","))});
    if (!missing.empty() && !chosen.empty())
      findings.push_back({"",
                          fmt::format("NCCL_IB_HCA={} leaves out rail NICs {}: their GPUs send over others' rails", hca,
                                      fmt::join(missing, ", ")),
                          fmt::format("NCCL_IB_HCA=={}, or unset it", fmt::join(rails, ","))});
  }
  if (const std::string ucx = facts.variable("UCX_NET_DEVICES"); !ucx.empty() && ucx != "all")
    for (const auto& item : comma_list(ucx)) {
      const std::string name = NcclList::name_of(item);
      const bool interface = std::any_of(facts.interfaces.begin(), facts.interfaces.end(),
                                         [&](const NetworkInterface& each) { return each.name == name; });
      if (!known(all, name) && !interface)
        findings.push_back({"", fmt::format("UCX_NET_DEVICES={} names {}, which this host does not have", ucx, item),
                            "unset it, so that railyard sets each rank's own"});
    }
}

void check_gid(const DoctorFacts& facts, Findings& findings) {
  const auto before = findings.size();
  const std::string wanted = facts.variable("NCCL_IB_GID_INDEX");
  int index = -1;
  const auto [end, error] = std::from_chars(wanted.data(), wanted.data() + wanted.size(), index);
  const bool given = !wanted.empty() && error == std::errc{} && end == wanted.data() + wanted.size();
  if (!wanted.empty() && !given)
    findings.push_back({"", fmt::format("NCCL_IB_GID_INDEX={} is no number", wanted), "unset it, or see show_gids"});
  const auto rails = rail_nics(facts);
  std::set<int> good_everywhere;
  bool first = true;
  for (const RdmaPort& port : facts.ports) {
    if (port.link_layer != "Ethernet" || port.state != "ACTIVE") continue;
    if (!rails.empty() && !known(rails, port.nic)) continue;
    std::set<int> good;
    const RdmaGid* chosen = nullptr;
    for (const RdmaGid& gid : port.gids) {
      if (gid.index == index) chosen = &gid;
      if (gid.type == "RoCE v2" && !gid.address.starts_with("fe80")) good.insert(gid.index);
    }
    if (first) good_everywhere = good;
    first = false;
    std::erase_if(good_everywhere, [&](int one) { return !good.contains(one); });
    const std::string use =
        good.empty() ? "give the interface a routable address" : fmt::format("NCCL_IB_GID_INDEX={}", *good.begin());
    if (given && chosen == nullptr)
      findings.push_back(
          {"", fmt::format("NCCL_IB_GID_INDEX={}: {} port {} has no such address", index, port.nic, port.port), use});
    else if (given && chosen->address.starts_with("fe80"))
      findings.push_back({"",
                          fmt::format("NCCL_IB_GID_INDEX={}: on {} that is link-local ({}), which no switch routes: "
                                      "connections time out",
                                      index, port.nic, chosen->address),
                          use});
    else if (given && chosen->type != "RoCE v2")
      findings.push_back(
          {"", fmt::format("NCCL_IB_GID_INDEX={}: on {} that is {}, not RoCE v2", index, port.nic, chosen->type), use});
    else if (!given && good.empty() && !port.gids.empty())
      findings.push_back({"", fmt::format("{} port {} has no routable RoCE v2 address", port.nic, port.port), use});
  }
  if (!given && !first && good_everywhere.empty() && findings.size() == before)
    findings.push_back(
        {"", "the RoCE v2 addresses of the rail NICs stand at different indices",
         "give the interfaces the same kinds of addresses; one fabric.gid_index of the site cannot fit all"});
}

void check_ports(const DoctorFacts& facts, Findings& findings) {
  double fastest = 0;
  for (const auto& nic : facts.node.nics)
    if (nic.role == topology::NicRole::kRail) fastest = std::max(fastest, nic.rate_gbps.value_or(0));
  for (const auto& nic : facts.node.nics) {
    if (nic.role != topology::NicRole::kRail) continue;
    if (nic.active == false)
      findings.push_back(
          {"", fmt::format("rail NIC {} has no active port", nic.name),
           "check cable, switch port and subnet manager (ibstat); jobs elsewhere may have more rails and "
           "hang"});
    else if (nic.rate_gbps && *nic.rate_gbps < fastest)
      findings.push_back(
          {"", fmt::format("rail NIC {} runs at {:g} Gb/s, others at {:g}", nic.name, *nic.rate_gbps, fastest),
           "check its cable and the port's negotiated rate"});
  }
  const bool verbs = std::any_of(facts.node.nics.begin(), facts.node.nics.end(),
                                 [](const topology::Nic& nic) { return nic.rdma == true; });
  if (verbs && facts.verbs_openable == false)
    findings.push_back({"", "/dev/infiniband/uverbs* cannot be opened: RDMA does not work here",
                        "pass /dev/infiniband on to the container, or fix its permissions"});
}

void check_interfaces(const DoctorFacts& facts, Findings& findings) {
  std::vector<std::string> names;
  for (const auto& each : facts.interfaces) names.push_back(each.name);
  for (const char* variable : {"NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"}) {
    const std::string value = facts.variable(variable);
    if (value.empty() || names.empty()) continue;
    const NcclList list(value);
    const auto chosen = list.chosen(names);
    if (chosen.empty())
      findings.push_back({"", fmt::format("{}={} matches no interface of this host", variable, value),
                          fmt::format("unset it, or name one that all nodes have; here: {}", fmt::join(names, ", "))});
    report_prefixes(list, names, variable, findings);
    for (const auto& each : facts.interfaces) {
      if (!known(chosen, each.name) || list.without) continue;
      if (virtual_interface(each.name))
        findings.push_back({"",
                            fmt::format("{}={} takes {}, which other nodes cannot reach", variable, value, each.name),
                            fmt::format("{}=^docker,lo, or a real interface", variable)});
      else if (!each.up)
        findings.push_back({"", fmt::format("{}={} takes {}, which is down", variable, value, each.name),
                            "bring it up, or name another"});
    }
  }
  std::map<std::pair<std::uint32_t, int>, std::vector<std::string>> networks;
  for (const auto& each : facts.interfaces)
    if (each.up && !virtual_interface(each.name))
      for (const auto& network : each.networks)
        if (network_of(network).second < 31) networks[network_of(network)].push_back(each.name);
  for (const auto& [network, members] : networks)
    if (members.size() > 1 && members.front() != members.back())
      findings.push_back({"",
                          fmt::format("{} are in one IP network: answers may leave by another interface than they came "
                                      "by, and NCCL's connections between rails fail",
                                      fmt::join(members, " and ")),
                          "give each rail a subnet of its own, or set arp_ignore=1, arp_announce=2 and rp_filter"});
}

void check_host_name(const DoctorFacts& facts, Findings& findings) {
  if (facts.host_addresses.empty()) return;
  const bool loopback =
      std::all_of(facts.host_addresses.begin(), facts.host_addresses.end(),
                  [](const std::string& address) { return address.starts_with("127.") || address == "::1"; });
  const bool elsewhere = !facts.variable("SLURM_JOB_NUM_NODES").empty() && facts.variable("SLURM_JOB_NUM_NODES") != "1";
  if (loopback && elsewhere)
    findings.push_back({"",
                        fmt::format("the host name {} resolves to {} only: programs that announce themselves by it "
                                    "cannot be reached from other nodes",
                                    facts.host, facts.host_addresses.front()),
                        "take it off the loopback line of /etc/hosts, or name it in DNS"});
}

}  // namespace railyard::launch
