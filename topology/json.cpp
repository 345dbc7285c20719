// The topology document.
#include "topology/json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "runtime/base/error.hpp"
#include "topology/sources/pci_tree.hpp"
#include "topology/sources/text.hpp"

namespace railyard::topology {
namespace {

template <class Value>
Json or_null(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}

// As a matrix cell's row and column are called in `paths`.
std::string device_name(const Node& node, std::size_t device) {
  return device < node.gpus.size() ? fmt::format("GPU{}", node.gpus[device].index)
                                   : node.nics[device - node.gpus.size()].name;
}

Json gpu_to_json(const Node& node, std::size_t position) {
  const Gpu& gpu = node.gpus[position];
  Json nvlink = nullptr;
  if (gpu.nvlink) {
    nvlink = Json::object();
    for (const auto& [peer, links] : *gpu.nvlink) nvlink[std::to_string(peer)] = or_null(links);
  }
  Json paths = Json::object(), bridges = Json::object();
  for (std::size_t device = 0; device < node.gpus.size() + node.nics.size(); ++device) {
    const auto a = static_cast<int>(position), b = static_cast<int>(device);
    if (const auto path = node.paths.at(a, b); path && a != b) {
      paths[device_name(node, device)] = path_name(*path);
      if (node.paths.hops(a, b) > 0) bridges[device_name(node, device)] = node.paths.hops(a, b);
    }
  }
  return Json{{"index", gpu.index},
              {"name", or_null(gpu.name)},
              {"pci", gpu.pci ? Json(gpu.pci->text()) : Json(nullptr)},
              {"numa", or_null(gpu.numa)},
              {"cpus", gpu.cpus ? Json(gpu.cpus->list()) : Json(nullptr)},
              {"partition", or_null(gpu.partition)},
              {"nvlink", std::move(nvlink)},
              {"nic", or_null(gpu.nic)},
              {"near_nics", or_null(gpu.near_nics)},
              {"path", gpu.path ? Json(path_name(*gpu.path)) : Json(nullptr)},
              {"rail", or_null(gpu.rail)},
              {"uuid", or_null(gpu.uuid)},
              {"rack", or_null(gpu.rack)},
              {"paths", std::move(paths)},
              {"bridges", std::move(bridges)}};
}

Json nic_to_json(const Nic& nic) {
  Json rate = nullptr;
  if (nic.rate_gbps)
    rate = *nic.rate_gbps == static_cast<double>(static_cast<long>(*nic.rate_gbps))
               ? Json(static_cast<long>(*nic.rate_gbps))
               : Json(*nic.rate_gbps);
  return Json{{"name", nic.name},
              {"pci", nic.pci ? Json(nic.pci->text()) : Json(nullptr)},
              {"numa", or_null(nic.numa)},
              {"role", nic.role ? Json(*nic.role == NicRole::kRail ? "rail" : "other") : Json(nullptr)},
              {"state", nic.active ? Json(*nic.active ? "active" : "down") : Json(nullptr)},
              {"rate_gbps", std::move(rate)},
              {"link_layer", or_null(nic.link_layer)}};
}

Json fabric_to_json(const Fabric& fabric) {
  Json switches = Json::array(), blocks = Json::array();
  for (const auto& sw : fabric.switches)
    switches.push_back({{"name", sw.name}, {"level", sw.level}, {"parent", or_null(sw.parent)}, {"nodes", sw.nodes}});
  for (const auto& block : fabric.blocks) blocks.push_back({{"name", block.name}, {"nodes", block.nodes}});
  return Json{{"kind", fabric.kind},     {"switches", std::move(switches)},   {"blocks", std::move(blocks)},
              {"source", fabric.source}, {"block_sizes", fabric.block_sizes}, {"warnings", fabric.warnings},
              {"notes", fabric.notes}};
}

// Reads members of one object; a null or absent member is unknown.
class Members {
 public:
  Members(const Json& object, std::string place) : object_(object), place_(std::move(place)) {
    if (!object.is_object()) throw UsageError("{}: an object is expected", place_);
  }
  [[nodiscard]] const Json* member(const char* key) const {
    const auto it = object_.find(key);
    return it == object_.end() || it->is_null() ? nullptr : &*it;
  }
  [[nodiscard]] std::optional<std::string> text(const char* key) const {
    const auto* value = member(key);
    if (value == nullptr) return std::nullopt;
    if (!value->is_string()) fail(key, "a string");
    return value->get<std::string>();
  }
  [[nodiscard]] std::optional<int> number(const char* key) const {
    const auto* value = member(key);
    if (value == nullptr) return std::nullopt;
    if (!value->is_number_integer() || value->get<long long>() < -1 || value->get<long long>() > 1 << 24)
      fail(key, "a small whole number");
    return value->get<int>();
  }
  [[nodiscard]] std::vector<std::string> texts(const char* key) const {
    std::vector<std::string> list;
    const auto* value = member(key);
    if (value == nullptr) return list;
    if (!value->is_array()) fail(key, "a list of strings");
    for (const auto& item : *value) {
      if (!item.is_string()) fail(key, "a list of strings");
      list.push_back(item.get<std::string>());
    }
    return list;
  }
  [[nodiscard]] const Json& list(const char* key) const {
    static const Json kNone = Json::array();
    const auto* value = member(key);
    if (value == nullptr) return kNone;
    if (!value->is_array()) fail(key, "a list");
    return *value;
  }
  [[noreturn]] void fail(const char* key, const char* expected) const {
    throw UsageError("{}.{}: {} is expected", place_, key, expected);
  }
  [[nodiscard]] const std::string& place() const { return place_; }

 private:
  const Json& object_;
  std::string place_;
};

std::optional<PciAddress> pci_of(const Members& members) {
  const auto text = members.text("pci");
  if (!text) return std::nullopt;
  const auto address = PciAddress::parse(*text);
  if (!address) members.fail("pci", "a PCI address");
  return address;
}

Gpu gpu_from_json(const Members& members) {
  Gpu gpu;
  gpu.index = members.number("index").value_or(-1);
  if (gpu.index < 0) members.fail("index", "a number from 0");
  gpu.name = members.text("name");
  gpu.pci = pci_of(members);
  gpu.numa = members.number("numa");
  if (const auto cpus = members.text("cpus")) {
    gpu.cpus = CpuSet::parse_list(*cpus);
    if (!gpu.cpus) members.fail("cpus", "a CPU list");
  }
  gpu.partition = members.text("partition");
  if (const auto* nvlink = members.member("nvlink"); nvlink != nullptr) {
    if (!nvlink->is_object()) members.fail("nvlink", "an object");
    gpu.nvlink.emplace();
    for (const auto& [peer, links] : nvlink->items()) {
      const auto index = parse_number<int>(peer);
      if (!index || !(links.is_null() || links.is_number_integer()))
        members.fail("nvlink", "link counts by peer index");
      (*gpu.nvlink)[*index] = links.is_null() ? std::nullopt : std::optional<int>(links.get<int>());
    }
  }
  gpu.nic = members.text("nic");
  if (members.member("near_nics") != nullptr) gpu.near_nics = members.texts("near_nics");
  if (const auto path = members.text("path")) {
    gpu.path = parse_path(*path);
    if (!gpu.path) members.fail("path", "PIX, PXB, PHB, NODE or SYS");
  }
  gpu.rail = members.number("rail");
  gpu.uuid = members.text("uuid");
  gpu.rack = members.text("rack");
  return gpu;
}

Nic nic_from_json(const Members& members) {
  Nic nic;
  nic.name = members.text("name").value_or("");
  nic.pci = pci_of(members);
  nic.numa = members.number("numa");
  if (const auto role = members.text("role")) nic.role = *role == "rail" ? NicRole::kRail : NicRole::kOther;
  nic.rdma = nic.role == NicRole::kOther ? std::optional<bool>(false) : std::nullopt;
  if (const auto state = members.text("state")) nic.active = *state == "active";
  if (const auto* rate = members.member("rate_gbps"); rate != nullptr) {
    if (!rate->is_number()) members.fail("rate_gbps", "a number");
    nic.rate_gbps = rate->get<double>();
  }
  nic.link_layer = members.text("link_layer");
  return nic;
}

// Devices that a document does not name (a site's hook may have dropped one) are passed over.
void read_paths(const Members& members, Node& node) {
  node.paths = PathTable(static_cast<int>(node.gpus.size() + node.nics.size()));
  std::map<std::string, int> devices;
  for (std::size_t device = 0; device < node.gpus.size() + node.nics.size(); ++device)
    devices.try_emplace(device_name(node, device), static_cast<int>(device));
  for (const auto& item : members.list("gpus")) {
    const Members gpu(item, members.place() + ".gpus");
    const int own = *node.position_of(*gpu.number("index"));
    const Gpu& read = node.gpus[static_cast<std::size_t>(own)];
    const auto* paths = gpu.member("paths");
    if (paths == nullptr) {  // written before paths were
      for (const auto& near : read.near_nics.value_or(std::vector<std::string>{}))
        if (const auto device = devices.find(near); device != devices.end())
          node.paths.set(own, device->second, read.path);
      continue;
    }
    if (!paths->is_object()) gpu.fail("paths", "an object");
    const auto* bridges = gpu.member("bridges");
    for (const auto& [name, word] : paths->items()) {
      const auto device = devices.find(name);
      if (device == devices.end() || device->second == own) continue;
      const auto path = word.is_string() ? parse_path(word.get_ref<const std::string&>()) : std::nullopt;
      if (!path) gpu.fail("paths", "PIX, PXB, PHB, NODE or SYS by device");
      int hops = 0;
      if (bridges != nullptr && bridges->is_object() && bridges->contains(name)) {
        const Json& count = bridges->at(name);
        if (!count.is_number_integer() || count.get<long long>() < 0 || count.get<long long>() > 64)
          gpu.fail("bridges", "small whole numbers by device");
        hops = count.get<int>();
      }
      node.paths.set(own, device->second, path, hops);
    }
  }
}

Node node_from_json(const Members& members) {
  Node node;
  node.name = members.text("name");
  node.source = members.text("source").value_or(members.place());
  node.warnings = members.texts("warnings");
  node.notes = members.texts("notes");
  int i = 0;
  for (const auto& gpu : members.list("gpus"))
    node.gpus.push_back(gpu_from_json({gpu, fmt::format("{}.gpus[{}]", members.place(), i++)}));
  i = 0;
  for (const auto& nic : members.list("nics"))
    node.nics.push_back(nic_from_json({nic, fmt::format("{}.nics[{}]", members.place(), i++)}));
  if (node.gpus.size() + node.nics.size() > kMostDevices)
    throw UsageError("{}: {} GPUs and NICs are beyond any node", members.place(), node.gpus.size() + node.nics.size());
  std::sort(node.gpus.begin(), node.gpus.end(), [](const Gpu& a, const Gpu& b) { return a.index < b.index; });
  for (std::size_t g = 1; g < node.gpus.size(); ++g)
    if (node.gpus[g].index == node.gpus[g - 1].index)
      throw UsageError("{}: GPU index {} appears twice", members.place(), node.gpus[g].index);
  read_paths(members, node);
  return node;
}

Fabric fabric_from_json(const Members& members) {
  Fabric fabric;
  fabric.kind = members.text("kind").value_or("");
  fabric.source = members.text("source").value_or(members.place());
  fabric.warnings = members.texts("warnings");
  fabric.notes = members.texts("notes");
  for (const auto& item : members.list("switches")) {
    const Members sw(item, members.place() + ".switches");
    fabric.switches.push_back(
        {sw.text("name").value_or(""), sw.number("level").value_or(0), sw.text("parent"), sw.texts("nodes")});
  }
  for (const auto& item : members.list("blocks")) {
    const Members block(item, members.place() + ".blocks");
    fabric.blocks.push_back({block.text("name").value_or(""), block.texts("nodes")});
  }
  for (const auto& size : members.list("block_sizes")) {
    if (!size.is_number_integer()) members.fail("block_sizes", "a list of numbers");
    fabric.block_sizes.push_back(size.get<int>());
  }
  return fabric;
}

}  // namespace

Json node_to_json(const Node& node) {
  Json gpus = Json::array(), nics = Json::array();
  for (std::size_t g = 0; g < node.gpus.size(); ++g) gpus.push_back(gpu_to_json(node, g));
  for (const auto& nic : node.nics) nics.push_back(nic_to_json(nic));
  return Json{{"name", or_null(node.name)},
              {"source", node.source},
              {"gpus", std::move(gpus)},
              {"nics", std::move(nics)},
              {"domains", or_null(nvlink_domains(node))},
              {"warnings", node.warnings},
              {"notes", node.notes}};
}

Json machine_to_json(const Machine& machine) {
  Json nodes = Json::array();
  for (const auto& node : machine.nodes) nodes.push_back(node_to_json(node));
  return Json{{"schema", 1},
              {"nodes", std::move(nodes)},
              {"fabric", machine.fabric ? fabric_to_json(*machine.fabric) : Json(nullptr)}};
}

Machine machine_from_json(const Json& document, const std::string& name) {
  const Members members(document, name);
  const auto schema = members.number("schema");
  if (!schema) throw UsageError("{}:1: a JSON file, but not one of railyard topo --json (it has no \"schema\")", name);
  if (*schema != 1) throw UsageError("{}: schema {} is newer than this program, which knows 1", name, *schema);
  Machine machine;
  int i = 0;
  for (const auto& node : members.list("nodes"))
    machine.nodes.push_back(node_from_json({node, fmt::format("{}: nodes[{}]", name, i++)}));
  if (const auto* fabric = members.member("fabric"); fabric != nullptr)
    machine.fabric = fabric_from_json({*fabric, name + ": fabric"});
  return machine;
}

}  // namespace railyard::topology
