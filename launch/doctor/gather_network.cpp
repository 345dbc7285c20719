// Reads interfaces, /sys/class/infiniband and the resolver.
#include "launch/doctor/gather_network.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <fstream>
#include <memory>

#include "topology/hostlist.hpp"
#include "topology/sources/text.hpp"

namespace railyard::launch {
namespace {

namespace fs = std::filesystem;

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    found.push_back(it->path());
  std::sort(found.begin(), found.end(), [](const fs::path& a, const fs::path& b) {
    return topology::natural_less(a.filename().native(), b.filename().native());
  });
  return found;
}

std::string address_text(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* bytes = address->sa_family == AF_INET
                          ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in*>(address)->sin_addr)
                          : static_cast<const void*>(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
  return inet_ntop(address->sa_family, bytes, text.data(), text.size()) != nullptr ? text.data() : "";
}

void gather_interfaces(DoctorFacts& facts) {
  ifaddrs* raw = nullptr;
  if (getifaddrs(&raw) != 0) return;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owned(raw, &freeifaddrs);
  for (const ifaddrs* each = raw; each != nullptr; each = each->ifa_next) {
    auto it = std::find_if(facts.interfaces.begin(), facts.interfaces.end(),
                           [&](const NetworkInterface& one) { return one.name == each->ifa_name; });
    if (it == facts.interfaces.end()) {
      facts.interfaces.push_back({each->ifa_name, false, {}});
      it = facts.interfaces.end() - 1;
    }
    it->up = it->up || (each->ifa_flags & (IFF_UP | IFF_RUNNING)) == (IFF_UP | IFF_RUNNING);
    if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET || each->ifa_netmask == nullptr) continue;
    const auto mask = reinterpret_cast<const sockaddr_in*>(each->ifa_netmask)->sin_addr.s_addr;
    it->networks.push_back(fmt::format("{}/{}", address_text(each->ifa_addr), std::popcount(mask)));
  }
}

void gather_host_addresses(DoctorFacts& facts) {
  addrinfo hints{}, *raw = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(facts.host.c_str(), nullptr, &hints, &raw) != 0) return;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(raw, &freeaddrinfo);
  for (const addrinfo* each = raw; each != nullptr; each = each->ai_next)
    if (each->ai_family == AF_INET || each->ai_family == AF_INET6)
      facts.host_addresses.push_back(address_text(each->ai_addr));
}

}  // namespace

std::vector<RdmaPort> read_rdma_ports(const fs::path& root) {
  std::vector<RdmaPort> ports;
  for (const fs::path& nic : entries(root / "class" / "infiniband"))
    for (const fs::path& folder : entries(nic / "ports")) {
      RdmaPort port;
      port.nic = nic.filename();
      port.port = topology::parse_number<int>(folder.filename().native()).value_or(1);
      const std::string state = first_line(folder / "state");  // "4: ACTIVE"
      port.state =
          state.substr(std::min(state.size(), state.find(": ") == std::string::npos ? 0 : state.find(": ") + 2));
      port.link_layer = first_line(folder / "link_layer");
      for (const fs::path& entry : entries(folder / "gids")) {
        RdmaGid gid;
        gid.index = topology::parse_number<int>(entry.filename().native()).value_or(0);
        gid.address = first_line(entry);
        gid.type = first_line(folder / "gid_attrs" / "types" / entry.filename());
        // Tables are padded with empty entries.
        if (!gid.address.empty() && gid.address.find_first_not_of("0:") != std::string::npos) port.gids.push_back(gid);
      }
      ports.push_back(std::move(port));
    }
  return ports;
}

void gather_network(DoctorFacts& facts) {
  gather_interfaces(facts);
  gather_host_addresses(facts);
  facts.ports = read_rdma_ports();
  for (const fs::path& device : entries("/dev/infiniband")) {
    if (!device.filename().native().starts_with("uverbs")) continue;
    const int descriptor = open(device.c_str(), O_RDWR | O_CLOEXEC);
    facts.verbs_openable = facts.verbs_openable.value_or(false) || descriptor >= 0;
    if (descriptor >= 0) close(descriptor);
  }
  if (!facts.verbs_openable && !facts.ports.empty()) facts.verbs_openable = false;
}

}  // namespace railyard::launch
