// NCCL's topology XML (NCCL_TOPO_FILE, NCCL_TOPO_DUMP_FILE), also RCCL's with <xgmi>. Elements: system > cpu > pci
// (nested for switches) > gpu > nvlink, and pci > nic > net. Static files of cloud providers hold the PCI tree alone,
// and their switch addresses are invented.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "runtime/base/error.hpp"
#include "topology/sources/pci_tree.hpp"
#include "topology/sources/source.hpp"
#include "topology/sources/text.hpp"
#include "topology/sources/xml.hpp"

namespace railyard::topology {
namespace {

struct Link {
  std::string target;
  std::optional<int> count;
  bool to_switch;
};

struct FoundGpu {
  Gpu gpu;
  PciPlace place;
  std::optional<int> dev;
  std::optional<std::vector<Link>> links;  // empty optional: no <gpu> element, so nothing is told
};

struct FoundNic {
  Nic nic;
  PciPlace place;
};

struct FoundNode {
  std::vector<FoundGpu> gpus;
  std::vector<FoundNic> nics;
};

class Reader {
 public:
  Reader(std::string_view text, const std::string& name) : xml_(text, name) {}
  Machine read();

 private:
  void walk(pugi::xml_node element, FoundNode& node, PciPlace place, const std::optional<CpuSet>& cpus, int depth);
  void add_gpu(pugi::xml_node pci, FoundNode& node, const PciPlace& place, const std::optional<CpuSet>& cpus);
  void add_nic(pugi::xml_node element, FoundNode& node, const PciPlace& place);
  Node finish(FoundNode& found) const;
  void join(Node& node, const std::vector<FoundGpu>& gpus) const;
  [[nodiscard]] std::optional<PciAddress> address_of(pugi::xml_node pci) const;

  XmlText xml_;
};

unsigned hex_of(pugi::xml_node element, const char* attribute) {
  std::string_view text = element.attribute(attribute).value();
  if (text.starts_with("0x")) text.remove_prefix(2);
  return parse_number<unsigned>(text, 16).value_or(0);
}

std::optional<PciAddress> Reader::address_of(pugi::xml_node pci) const {
  const auto address = PciAddress::parse(pci.attribute("busid").value());
  if (!address)
    throw UsageError("{}: busid=\"{}\" is not a PCI address", xml_.place(pci),
                     std::string_view(pci.attribute("busid").value()).substr(0, 40));
  return address;
}

void Reader::add_gpu(pugi::xml_node pci, FoundNode& node, const PciPlace& place, const std::optional<CpuSet>& cpus) {
  int parts = 0;
  for ([[maybe_unused]] const auto gpu : pci.children("gpu")) ++parts;
  for (int part = 0; part < std::max(parts, 1); ++part) {
    FoundGpu found;
    found.place = place;
    found.gpu.pci = address_of(pci);
    found.gpu.numa = place.numa;
    found.gpu.cpus = cpus;
    if (parts > 1) found.gpu.partition = fmt::format("{}/{}", part + 1, parts);
    node.gpus.push_back(std::move(found));
  }
  auto it = node.gpus.end() - std::max(parts, 1);
  for (const auto gpu : pci.children("gpu")) {
    it->dev = parse_number<int>(gpu.attribute("dev").value());
    it->links.emplace();
    for (const auto link : gpu.children()) {
      const std::string_view kind = link.name();
      if (kind != "nvlink" && kind != "xgmi") continue;
      const unsigned target_class = hex_of(link, "tclass");
      if (target_class == 0x068001) continue;  // a CPU's NVLinks (POWER, Grace) join no GPUs
      const bool to_switch = target_class >> 8 == 0x0680;
      std::string target = link.attribute("target").value();
      if (const auto address = PciAddress::parse(target)) target = address->text();
      it->links->push_back({std::move(target), parse_number<int>(link.attribute("count").value()), to_switch});
    }
    ++it;
  }
}

void Reader::add_nic(pugi::xml_node element, FoundNode& node, const PciPlace& place) {
  const bool at_pci = std::string_view(element.name()) == "pci";
  FoundNic base{{}, place};
  base.nic.numa = place.numa;
  if (at_pci) {
    base.nic.pci = address_of(element);
    if (const auto layer =
            link_layer_of(hex_of(element, "class") >> 8, hex_of(element, "vendor"), hex_of(element, "device")))
      base.nic.link_layer = *layer;
  }
  bool named = false;
  const auto add_nets = [&](pugi::xml_node nic) {
    for (const auto net : nic.children("net")) {
      FoundNic found = base;
      found.nic.name = net.attribute("name").value();
      if (found.nic.name.empty()) throw UsageError("{}: a <net> without a name", xml_.place(net));
      if (const auto speed = parse_real(net.attribute("speed").value()); speed && *speed > 0)
        found.nic.rate_gbps = *speed / 1000;
      // A socket interface has neither a port GUID nor GPUDirect.
      const std::string_view guid = net.attribute("guid").value();
      const bool fabric = std::string_view(net.attribute("gdr").value()) == "1" ||
                          guid.find_first_not_of("0x") != std::string_view::npos;
      found.nic.rdma = fabric;
      node.nics.push_back(std::move(found));
      named = true;
    }
  };
  if (!at_pci) return add_nets(element);
  for (const auto nic : element.children("nic")) add_nets(nic);
  if (named) return;
  base.nic.name = base.nic.pci->text();
  base.nic.rdma = true;
  node.nics.push_back(std::move(base));
}

void Reader::walk(pugi::xml_node element, FoundNode& node, PciPlace place, const std::optional<CpuSet>& cpus,
                  int depth) {
  if (depth > kDeepestXml) throw UsageError("{}: elements are nested too deeply", xml_.place(element));
  for (const auto child : element.children()) {
    const std::string_view kind = child.name();
    if (kind == "nic") add_nic(child, node, place);
    if (kind != "pci") continue;
    const unsigned pci_class = hex_of(child, "class") >> 8, vendor = hex_of(child, "vendor");
    if (child.child("gpu") ||
        (vendor == 0 ? (pci_class >> 8 == 0x03 || pci_class == 0x1200) : is_gpu(pci_class, vendor, true))) {
      add_gpu(child, node, place, cpus);
    } else if (child.child("nic") || pci_class >> 8 == 0x02) {
      add_nic(child, node, place);
    } else {
      PciPlace below = place;
      below.bridges.push_back(static_cast<int>(child.offset_debug()));
      walk(child, node, std::move(below), cpus, depth + 1);
    }
    if (node.gpus.size() + node.nics.size() > kMostDevices)
      throw UsageError("{}: more than {} GPUs and NICs are beyond any node", xml_.place(child), kMostDevices);
  }
}

// Direct links by target, and links through switches that both ends share.
void Reader::join(Node& node, const std::vector<FoundGpu>& gpus) const {
  const bool told =
      std::any_of(gpus.begin(), gpus.end(), [](const FoundGpu& gpu) { return gpu.links && !gpu.links->empty(); });
  if (!told) {
    if (!gpus.empty()) node.notes.emplace_back("no NVLink data in the file: NVLink is unknown");
    return;
  }
  std::map<std::string, int> index_of;
  for (const auto& gpu : gpus) index_of.try_emplace(gpu.gpu.pci->text(), gpu.gpu.index);
  std::vector<std::map<std::string, std::optional<int>>> switches(gpus.size());
  for (std::size_t g = 0; g < gpus.size(); ++g) {
    if (!gpus[g].links) continue;
    auto& links = node.gpus[g].nvlink.emplace();
    for (const Link& link : *gpus[g].links) {
      if (link.to_switch) {
        auto& total = switches[g].try_emplace(link.target, 0).first->second;
        total = total && link.count ? std::optional<int>(*total + *link.count) : std::nullopt;
        continue;
      }
      const auto target = index_of.find(link.target);
      links[target == index_of.end() ? -1 : target->second] = link.count;
    }
  }
  for (std::size_t a = 0; a < gpus.size(); ++a)
    for (std::size_t b = 0; b < gpus.size(); ++b) {
      if (a == b) continue;
      std::optional<int> total;
      for (const auto& [target, count] : switches[a]) {
        const auto other = switches[b].find(target);
        if (other == switches[b].end()) continue;
        total = total.value_or(0) + std::min(count.value_or(0), other->second.value_or(0));
      }
      if (total) (*node.gpus[a].nvlink)[gpus[b].gpu.index] = *total > 0 ? total : std::nullopt;
    }
}

Node Reader::finish(FoundNode& found) const {
  Node node;
  node.source = "NCCL XML: " + xml_.name();
  std::stable_sort(found.gpus.begin(), found.gpus.end(),
                   [](const FoundGpu& a, const FoundGpu& b) { return *a.gpu.pci < *b.gpu.pci; });
  std::set<int> devs;
  for (const auto& gpu : found.gpus)
    if (gpu.dev) devs.insert(*gpu.dev);
  const bool numbered = devs.size() == found.gpus.size();
  if (numbered)
    std::stable_sort(found.gpus.begin(), found.gpus.end(),
                     [](const FoundGpu& a, const FoundGpu& b) { return *a.dev < *b.dev; });
  std::stable_sort(found.nics.begin(), found.nics.end(),
                   [](const FoundNic& a, const FoundNic& b) { return a.nic.pci < b.nic.pci; });
  std::vector<PciPlace> gpu_places, nic_places;
  for (std::size_t i = 0; i < found.gpus.size(); ++i) {
    found.gpus[i].gpu.index = numbered ? *found.gpus[i].dev : static_cast<int>(i);
    node.gpus.push_back(found.gpus[i].gpu);
    gpu_places.push_back(found.gpus[i].place);
  }
  for (auto& nic : found.nics) {
    node.nics.push_back(nic.nic);
    nic_places.push_back(nic.place);
  }
  fill_paths(node, gpu_places, nic_places, BridgeDetail::kSwitches);
  join(node, found.gpus);
  normalise_links(node);
  return node;
}

Machine Reader::read() {
  const auto root = xml_.root();
  if (std::string_view(root.name()) != "system") throw UsageError("{}: no <system> element", xml_.place(root));
  std::map<std::string, FoundNode> hosts;  // files of several nodes (NVLink racks) tell them apart by host_hash
  std::vector<std::string> order;
  for (const auto cpu : root.children("cpu")) {
    const std::string host = cpu.attribute("host_hash").value();
    if (!hosts.contains(host)) order.push_back(host);
    PciPlace place;
    place.host_bridge = static_cast<int>(cpu.offset_debug());
    if (const auto numa = parse_number<int>(cpu.attribute("numaid").value()); numa && *numa >= 0) place.numa = *numa;
    std::optional<CpuSet> cpus;
    if (const auto affinity = cpu.attribute("affinity")) {
      cpus = CpuSet::parse_mask(affinity.value());
      if (!cpus)
        throw UsageError("{}: affinity=\"{}\" is not a bit mask", xml_.place(cpu),
                         std::string_view(affinity.value()).substr(0, 60));
      if (cpus->empty()) cpus.reset();
    }
    walk(cpu, hosts[host], place, cpus, 0);
  }
  if (order.empty()) throw UsageError("{}: <system> holds no <cpu>", xml_.place(root));
  Machine machine;
  for (const auto& host : order) {
    machine.nodes.push_back(finish(hosts[host]));
    if (order.size() > 1) machine.nodes.back().name = host;
  }
  return machine;
}

}  // namespace

Machine read_nccl_xml(std::string_view text, const std::string& name) { return Reader(text, name).read(); }

}  // namespace railyard::topology
