// hwloc's XML, versions 1, 2 and 3 (lstopo --of xml). Read here, because the hwloc of Debian 12 refuses version 3.
// Format: hwloc's own dtd; `osdev_type` is an enumeration before 3.0 and a bit mask since.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "runtime/base/error.hpp"
#include "topology/sources/pci_tree.hpp"
#include "topology/sources/source.hpp"
#include "topology/sources/text.hpp"
#include "topology/sources/xml.hpp"

namespace railyard::topology {
namespace {

enum class OsKind { kGpu, kNetwork, kFabric, kOther };

struct OsDevice {
  std::string name;
  OsKind kind;
  std::map<std::string, std::string> info;
};

struct PciDevice {
  PciAddress address;
  unsigned pci_class = 0, vendor = 0, device = 0;
  bool nvswitch = false;
  std::string model;
  PciPlace place;
  std::optional<CpuSet> cpus;
  std::vector<OsDevice> os_devices;
};

// What holds for everything below an object of the tree.
struct Context {
  std::optional<CpuSet> cpus, nodes;
  PciPlace place;
  int device = -1;  // index of the PCI device above
  int depth = 0;
};

class Reader {
 public:
  Reader(std::string_view text, const std::string& name) : xml_(text, name) {}
  Node read();

 private:
  void collect_numa(pugi::xml_node object, const std::optional<CpuSet>& above, int depth);
  void walk(pugi::xml_node object, Context context);
  void add_pci(pugi::xml_node object, Context& context);
  void add_os(pugi::xml_node object, const Context& context);
  [[nodiscard]] OsKind os_kind(pugi::xml_node object) const;
  [[nodiscard]] std::optional<CpuSet> set_of(pugi::xml_node object, const char* attribute) const;
  [[nodiscard]] std::optional<int> numa_of(const Context& context) const;
  void add_gpus(Node& node);
  void add_nics(Node& node);
  void add_links(Node& node, pugi::xml_node distances) const;

  XmlText xml_;
  int version_ = 2;
  std::map<int, CpuSet> numa_nodes_;  // os index -> CPUs
  std::vector<PciDevice> devices_;
  std::map<unsigned long long, int> by_gp_;  // gp_index of a PCI or OS device -> index into devices_
  std::map<int, int> gpu_of_device_;         // device -> GPU index, for devices that are one GPU
  std::vector<PciPlace> gpu_places_, nic_places_;
  std::optional<std::string> host_;
};

std::optional<CpuSet> Reader::set_of(pugi::xml_node object, const char* attribute) const {
  const auto value = object.attribute(attribute);
  if (!value) return std::nullopt;
  auto set = CpuSet::parse_mask(value.value());
  if (!set)
    throw UsageError("{}: {}=\"{}\" is not a bit mask", xml_.place(object), attribute,
                     std::string_view(value.value()).substr(0, 60));
  return set;
}

void Reader::collect_numa(pugi::xml_node object, const std::optional<CpuSet>& above, int depth) {
  if (depth > kDeepestXml) throw UsageError("{}: objects are nested too deeply", xml_.place(object));
  auto cpus = set_of(object, "cpuset");
  if (!cpus) cpus = above;
  if (std::string_view(object.attribute("type").value()) == "NUMANode")
    if (const auto index = parse_number<int>(object.attribute("os_index").value()))
      numa_nodes_[*index] = cpus.value_or(CpuSet{});
  for (const auto child : object.children("object")) collect_numa(child, cpus, depth + 1);
}

std::optional<int> Reader::numa_of(const Context& context) const {
  if (!context.nodes) return std::nullopt;
  const auto members = context.nodes->members();
  if (members.size() == 1) return members[0];
  // Memory of GPUs and HBM appear as NUMA nodes without CPUs; a device belongs to the one that has some.
  std::vector<int> with_cpus;
  for (const int member : members)
    if (const auto it = numa_nodes_.find(member); it != numa_nodes_.end() && !it->second.empty())
      with_cpus.push_back(member);
  if (with_cpus.size() == 1) return with_cpus[0];
  return std::nullopt;
}

void Reader::walk(pugi::xml_node object, Context context) {
  if (++context.depth > kDeepestXml) throw UsageError("{}: objects are nested too deeply", xml_.place(object));
  const std::string_view type = object.attribute("type").value();
  if (type == "Bridge") {
    const int identity = static_cast<int>(object.offset_debug());
    if (std::string_view(object.attribute("bridge_type").value()).starts_with("0-"))
      context.place.host_bridge = identity;
    else
      context.place.bridges.push_back(identity);
  } else if (type == "PCIDev") {
    add_pci(object, context);
  } else if (type == "OSDev") {
    add_os(object, context);
  } else if (type != "Misc") {
    if (auto cpus = set_of(object, "cpuset")) context.cpus = std::move(cpus);
    if (auto nodes = set_of(object, "nodeset"))
      context.nodes = std::move(nodes);
    else if (type == "NUMANode")
      if (const auto index = parse_number<int>(object.attribute("os_index").value());
          index && *index >= 0 && *index < CpuSet::kLimit) {
        context.nodes.emplace();
        context.nodes->add(*index);
      }
    context.place.numa = numa_of(context);
  }
  if (type == "Machine")
    for (const auto info : object.children("info"))
      if (std::string_view(info.attribute("name").value()) == "HostName") host_ = info.attribute("value").value();
  for (const auto child : object.children("object")) walk(child, context);
}

// pci_type is "CCCC [vvvv:dddd] [subsystem] revision".
void Reader::add_pci(pugi::xml_node object, Context& context) {
  const auto address = PciAddress::parse(object.attribute("pci_busid").value());
  if (!address)
    throw UsageError("{}: pci_busid=\"{}\" is not a PCI address", xml_.place(object),
                     std::string_view(object.attribute("pci_busid").value()).substr(0, 40));
  PciDevice device;
  device.address = *address;
  const std::string_view type = object.attribute("pci_type").value();
  device.pci_class = parse_number<unsigned>(type.substr(0, 4), 16).value_or(0);
  if (const auto open = type.find('['); open != std::string_view::npos && type.size() >= open + 10) {
    device.vendor = parse_number<unsigned>(type.substr(open + 1, 4), 16).value_or(0);
    device.device = parse_number<unsigned>(type.substr(open + 6, 4), 16).value_or(0);
  }
  device.nvswitch = std::string_view(object.attribute("subtype").value()) == "NVSwitch" ||
                    (device.pci_class == 0x0680 && device.vendor == 0x10de);
  for (const auto info : object.children("info"))
    if (std::string_view(info.attribute("name").value()) == "PCIDevice") device.model = info.attribute("value").value();
  device.place = context.place;
  device.cpus = context.cpus;
  context.device = static_cast<int>(devices_.size());
  if (const auto gp = parse_number<unsigned long long>(object.attribute("gp_index").value()))
    by_gp_[*gp] = context.device;
  devices_.push_back(std::move(device));
}

OsKind Reader::os_kind(pugi::xml_node object) const {
  const std::string_view text = object.attribute("osdev_type").value();
  const auto type = parse_number<unsigned>(text).value_or(~0U);
  if (version_ >= 3 && type != ~0U) {
    if ((type & 32U) != 0) return OsKind::kFabric;
    if ((type & 12U) != 0) return OsKind::kGpu;
    return (type & 16U) != 0 ? OsKind::kNetwork : OsKind::kOther;
  }
  constexpr std::array<OsKind, 6> kinds{OsKind::kOther,  OsKind::kGpu,   OsKind::kNetwork,
                                        OsKind::kFabric, OsKind::kOther, OsKind::kGpu};
  return type < kinds.size() ? kinds[type] : OsKind::kOther;
}

void Reader::add_os(pugi::xml_node object, const Context& context) {
  if (context.device < 0) return;
  OsDevice device{object.attribute("name").value(), os_kind(object), {}};
  for (const auto info : object.children("info"))
    device.info[info.attribute("name").value()] = info.attribute("value").value();
  if (const auto gp = parse_number<unsigned long long>(object.attribute("gp_index").value()))
    by_gp_[*gp] = context.device;
  devices_[static_cast<std::size_t>(context.device)].os_devices.push_back(std::move(device));
}

// The N of a name such as nvml3.
std::optional<int> unit_of(const std::string& name, std::string_view backend) {
  if (!name.starts_with(backend)) return std::nullopt;
  return parse_number<int>(std::string_view(name).substr(backend.size()));
}

void Reader::add_gpus(Node& node) {
  struct Found {
    Gpu gpu;
    int device;
    std::optional<int> unit;
  };
  std::vector<Found> found;
  for (std::size_t d = 0; d < devices_.size(); ++d) {
    const PciDevice& device = devices_[d];
    const bool compute = std::any_of(device.os_devices.begin(), device.os_devices.end(), [](const OsDevice& os) {
      return os.kind == OsKind::kGpu && !os.name.starts_with("card") && !os.name.starts_with("controlD");
    });
    if (!is_gpu(device.pci_class, device.vendor, compute)) continue;
    std::vector<std::optional<int>> units;
    for (const std::string_view backend : {"nvml", "rsmi", "cuda", "ze"}) {
      for (const auto& os : device.os_devices)
        if (const auto unit = unit_of(os.name, backend)) units.emplace_back(unit);
      if (!units.empty()) break;
    }
    if (units.empty()) units.emplace_back(std::nullopt);
    for (std::size_t part = 0; part < units.size(); ++part) {
      Gpu gpu;
      gpu.pci = device.address;
      gpu.numa = device.place.numa;
      gpu.cpus = device.cpus;
      if (units.size() > 1) gpu.partition = fmt::format("{}/{}", part + 1, units.size());
      if (!device.model.empty()) gpu.name = device.model;
      for (const auto& os : device.os_devices) {
        if (const auto it = os.info.find("GPUModel"); it != os.info.end()) gpu.name = it->second;
        for (const char* key : {"NVIDIAUUID", "AMDUUID"})
          if (const auto it = os.info.find(key); it != os.info.end() && units.size() == 1) gpu.uuid = it->second;
      }
      found.push_back({std::move(gpu), static_cast<int>(d), units[part]});
    }
  }
  std::stable_sort(found.begin(), found.end(), [](const Found& a, const Found& b) { return *a.gpu.pci < *b.gpu.pci; });
  std::set<int> units;
  for (const auto& one : found)
    if (one.unit) units.insert(*one.unit);
  const bool numbered = units.size() == found.size();
  if (numbered)
    std::stable_sort(found.begin(), found.end(), [](const Found& a, const Found& b) { return *a.unit < *b.unit; });
  for (auto& one : found) {
    one.gpu.index = numbered ? *one.unit : static_cast<int>(node.gpus.size());
    if (!one.gpu.partition) gpu_of_device_[one.device] = one.gpu.index;
    gpu_places_.push_back(devices_[static_cast<std::size_t>(one.device)].place);
    node.gpus.push_back(std::move(one.gpu));
  }
  for (const Gpu& gpu : node.gpus)
    if (gpu.cpus && gpu.cpus->empty()) {
      node.notes.emplace_back(
          "some GPUs have no near CPU left (a cgroup or an offline package): bind by NUMA node, not by CPU");
      break;
    }
}

std::optional<bool> port_state(const OsDevice& os) {
  std::optional<bool> active;
  for (const auto& [key, value] : os.info)
    if (key.starts_with("Port") && key.ends_with("State"))
      active = active.value_or(false) || value == "4" || value.starts_with("4:");
  return active;
}

void Reader::add_nics(Node& node) {
  const bool any_fabric = std::any_of(devices_.begin(), devices_.end(), [](const PciDevice& device) {
    return std::any_of(device.os_devices.begin(), device.os_devices.end(),
                       [](const OsDevice& os) { return os.kind == OsKind::kFabric; });
  });
  std::vector<const PciDevice*> order;
  for (const auto& device : devices_)
    if (device.pci_class >> 8 == 0x02) order.push_back(&device);
  std::stable_sort(order.begin(), order.end(),
                   [](const PciDevice* a, const PciDevice* b) { return a->address < b->address; });
  for (const PciDevice* device : order) {
    Nic nic;
    nic.pci = device->address;
    nic.numa = device->place.numa;
    if (const auto layer = link_layer_of(device->pci_class, device->vendor, device->device)) nic.link_layer = *layer;
    const bool fabric_class = nic.link_layer && *nic.link_layer != "Ethernet";
    bool named = false;
    for (const OsKind kind : {OsKind::kFabric, OsKind::kNetwork}) {
      if (named) break;
      for (const auto& os : device->os_devices) {
        if (os.kind != kind) continue;
        nic.name = os.name;
        nic.active = port_state(os);
        if (kind == OsKind::kFabric || fabric_class)
          nic.rdma = true;
        else if (device->vendor != 0x15b3 || any_fabric)
          nic.rdma = false;
        node.nics.push_back(nic);
        nic_places_.push_back(device->place);
        named = true;
      }
    }
    if (named || !fabric_class) continue;
    nic.name = device->address.text();
    nic.rdma = true;
    node.nics.push_back(nic);
    nic_places_.push_back(device->place);
  }
}

// <distances2> of one object type (indices in gp_index), or <distances2hetero> with "Type:gp_index" entries.
void Reader::add_links(Node& node, pugi::xml_node distances) const {
  const std::string_view what = distances.attribute("name").value();
  const bool nvlink = what == "NVLinkBandwidth";
  if (!nvlink && what != "XGMIBandwidth" && what != "XeLinkBandwidth") return;
  std::vector<std::optional<int>> objects;  // device, for PCI and OS devices
  for (const auto part : distances.children("indexes"))
    for (const auto word : split_words(part.child_value())) {
      const auto colon = word.find(':');
      const bool device = colon == std::string_view::npos || word.starts_with("OSDev") || word.starts_with("PCIDev");
      const auto gp = parse_number<unsigned long long>(colon == std::string_view::npos ? word : word.substr(colon + 1));
      if (!gp)
        throw UsageError("{}: \"{}\" is not an index of a distance matrix", xml_.place(part), word.substr(0, 40));
      const auto it = by_gp_.find(*gp);
      objects.push_back(device && it != by_gp_.end() ? std::optional<int>(it->second) : std::nullopt);
    }
  std::vector<unsigned long long> values;
  for (const auto part : distances.children("u64values"))
    for (const auto word : split_words(part.child_value())) {
      const auto value = parse_number<unsigned long long>(word);
      if (!value)
        throw UsageError("{}: \"{}\" is not a value of a distance matrix", xml_.place(part), word.substr(0, 40));
      values.push_back(*value);
    }
  const std::size_t count = objects.size();
  if (count > kMostDevices)
    throw UsageError("{}: a distance matrix of {} objects is beyond any node", xml_.place(distances), count);
  if (values.size() != count * count)
    throw UsageError("{}: the matrix {} has {} values for {} objects, not {}", xml_.place(distances), what,
                     values.size(), count, count * count);
  const auto gpu_at = [&](std::size_t i) -> std::optional<int> {
    const auto it = objects[i] ? gpu_of_device_.find(*objects[i]) : gpu_of_device_.end();
    return it == gpu_of_device_.end() ? std::nullopt : std::optional<int>(it->second);
  };
  std::vector<std::size_t> switches;
  for (std::size_t i = 0; i < count; ++i)
    if (objects[i] && devices_[static_cast<std::size_t>(*objects[i])].nvswitch) switches.push_back(i);
  for (std::size_t i = 0; i < count; ++i) {
    const auto gpu = gpu_at(i);
    if (!gpu) continue;
    auto& links = node.gpus[static_cast<std::size_t>(*node.position_of(*gpu))].nvlink;
    if (!links) links.emplace();
    const auto rate = static_cast<unsigned>(
        nvlink ? nvlink_rate(devices_[static_cast<std::size_t>(*objects[i])].device).value_or(0) : 0);
    for (std::size_t j = 0; j < count; ++j) {
      const auto peer = gpu_at(j);
      if (!peer || *peer == *gpu) continue;
      // Ports of NVSwitches are merged: what both GPUs have to the same switch joins them.
      unsigned long long bandwidth = values[i * count + j];
      for (const auto s : switches) bandwidth += std::min(values[i * count + s], values[j * count + s]);
      if (bandwidth == 0) continue;
      const bool whole = rate > 0 && bandwidth % rate == 0 && bandwidth / rate <= 64;
      (*links)[*peer] = whole ? std::optional<int>(static_cast<int>(bandwidth / rate)) : std::nullopt;
    }
  }
  if (!switches.empty())
    node.notes.emplace_back(
        "NVLink counts come from GPU-to-NVSwitch links; trunk links between switches are not listed, so domains may be "
        "joined");
}

Node Reader::read() {
  const auto root = xml_.root();
  if (std::string_view(root.name()) != "topology" || !root.child("object"))
    throw UsageError("{}: no <topology> with an <object> in it", xml_.place(root));
  const std::string_view version = root.attribute("version").value();
  version_ = version.empty() ? 1 : parse_number<int>(version.substr(0, version.find('.'))).value_or(0);
  if (version_ < 1 || version_ > 3)
    throw UsageError("{}: hwloc XML version \"{}\" is not known (1 to 3 are)", xml_.place(root), version);
  Node node;
  node.source = fmt::format("hwloc XML v{}: {}", version_, xml_.name());
  for (const auto object : root.children("object")) collect_numa(object, std::nullopt, 0);
  for (const auto object : root.children("object")) walk(object, {});
  node.name = host_;
  add_gpus(node);
  add_nics(node);
  fill_paths(node, gpu_places_, nic_places_, BridgeDetail::kPorts);
  for (const auto* kind : {"distances2", "distances2hetero"})
    for (const auto distances : root.children(kind)) add_links(node, distances);
  normalise_links(node);
  if (!node.gpus.empty() && !node.gpus[0].nvlink)
    node.notes.emplace_back("no NVLink data in the file: NVLink is unknown");
  return node;
}

}  // namespace

Machine read_hwloc_xml(std::string_view text, const std::string& name) {
  Machine machine;
  machine.nodes.push_back(Reader(text, name).read());
  return machine;
}

}  // namespace railyard::topology
