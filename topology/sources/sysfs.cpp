// Reads /sys/class/infiniband and /sys/bus/pci/devices.
#include "topology/sources/sysfs.hpp"

#include <algorithm>
#include <fstream>

#include "topology/hostlist.hpp"
#include "topology/sources/pci_tree.hpp"
#include "topology/sources/text.hpp"

namespace railyard::topology {
namespace {

namespace fs = std::filesystem;

std::optional<std::string> first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return std::string(trimmed(line));
}

std::optional<int> numa_of(const fs::path& device) {
  const auto text = first_line(device / "numa_node");
  const auto number = text ? parse_number<int>(*text) : std::nullopt;
  return number && *number >= 0 ? number : std::nullopt;
}

std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    found.push_back(it->path());
  std::sort(found.begin(), found.end(), [](const fs::path& a, const fs::path& b) {
    return natural_less(a.filename().native(), b.filename().native());
  });
  return found;
}

Nic read_rdma_device(const fs::path& folder) {
  Nic nic;
  nic.name = folder.filename();
  nic.rdma = true;
  std::error_code error;
  const auto device = fs::canonical(folder / "device", error);
  if (!error) {
    nic.pci = PciAddress::parse(device.filename().native());
    nic.numa = numa_of(device);
  }
  for (const auto& port : entries(folder / "ports")) {
    if (const auto state = first_line(port / "state"))
      nic.active = nic.active.value_or(false) || state->starts_with("4");
    if (const auto layer = first_line(port / "link_layer"); layer && !layer->empty() && !nic.link_layer)
      nic.link_layer = *layer;
    // "400 Gb/sec (4X NDR)"
    if (const auto rate = first_line(port / "rate"))
      if (const auto words = split_words(*rate); !words.empty())
        if (const auto value = parse_real(words[0])) nic.rate_gbps = std::max(nic.rate_gbps.value_or(0), *value);
  }
  if (const auto vendor = first_line(folder / "device" / "vendor"); vendor && *vendor == "0x1d0f")
    nic.link_layer = "EFA";
  return nic;
}

void fill(Nic& mine, const Nic& found) {
  if (!mine.pci) mine.pci = found.pci;
  if (!mine.numa) mine.numa = found.numa;
  if (found.active) mine.active = found.active;
  if (found.rate_gbps) mine.rate_gbps = found.rate_gbps;
  if (found.link_layer) mine.link_layer = found.link_layer;
  mine.rdma = true;
}

}  // namespace

void add_sysfs_facts(Node& node, const fs::path& root) {
  std::vector<Nic> added;
  for (const auto& folder : entries(root / "class" / "infiniband")) {
    const Nic found = read_rdma_device(folder);
    auto it = std::find_if(node.nics.begin(), node.nics.end(), [&](const Nic& nic) { return nic.name == found.name; });
    if (it == node.nics.end())  // hwloc knows the network interface of the same function
      it = std::find_if(node.nics.begin(), node.nics.end(),
                        [&](const Nic& nic) { return nic.pci && nic.pci == found.pci && nic.rdma != true; });
    if (it == node.nics.end())
      added.push_back(found);
    else {
      it->name = found.name;
      fill(*it, found);
    }
  }
  if (!added.empty() && node.gpus.size() + node.nics.size() + added.size() <= kMostDevices) {
    PathTable paths(static_cast<int>(node.gpus.size() + node.nics.size() + added.size()));
    for (int a = 0; a < node.paths.devices(); ++a)
      for (int b = a + 1; b < node.paths.devices(); ++b) paths.set(a, b, node.paths.at(a, b), node.paths.hops(a, b));
    node.paths = std::move(paths);
    node.nics.insert(node.nics.end(), added.begin(), added.end());
  }
  for (Gpu& gpu : node.gpus) {
    if (!gpu.pci) continue;
    const auto device = root / "bus" / "pci" / "devices" / gpu.pci->text();
    if (!gpu.numa) gpu.numa = numa_of(device);
    if (!gpu.cpus)
      if (const auto list = first_line(device / "local_cpulist")) gpu.cpus = CpuSet::parse_list(*list);
  }
  // Where no bridge is known, two NUMA nodes still tell NODE from SYS.
  const auto gpus = node.gpus.size();
  for (std::size_t g = 0; g < gpus; ++g)
    for (std::size_t n = 0; n < node.nics.size(); ++n)
      if (!node.nic_path(static_cast<int>(g), static_cast<int>(n)) && node.gpus[g].numa && node.nics[n].numa)
        node.paths.set(static_cast<int>(g), static_cast<int>(gpus + n),
                       *node.gpus[g].numa == *node.nics[n].numa ? PathClass::kNode : PathClass::kSys);
}

}  // namespace railyard::topology
