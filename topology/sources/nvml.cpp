// Reads NVML through dlopen. The declarations follow the public NVML API reference; only long-stable entry points.
#include "topology/sources/nvml.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>

#include "topology/sources/text.hpp"

namespace railyard::topology {
namespace {

using Device = void*;
constexpr int kSuccess = 0;
constexpr unsigned kMostLinks = 36;

struct PciInfo {
  char legacy_bus_id[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
};

struct FabricInfo {
  unsigned char cluster_uuid[16];
  int status;
  unsigned clique_id;
  unsigned char state;
};

// A function of the library; false when the library lacks it.
template <class... Args>
class Function {
 public:
  Function(void* library, const char* name) : pointer_(reinterpret_cast<Pointer>(dlsym(library, name))) {}
  bool operator()(Args... args) const { return pointer_ != nullptr && pointer_(args...) == kSuccess; }

 private:
  using Pointer = int (*)(Args...);
  Pointer pointer_;
};

class Library {
 public:
  explicit Library(void* handle) : handle_(handle) {}
  bool start() { return started_ = Function<>(handle_, "nvmlInit_v2")(); }
  ~Library() {
    if (started_) Function<>(handle_, "nvmlShutdown")();
    dlclose(handle_);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  std::optional<Node> read();
  Node read_identities(std::vector<Device>& devices) const;
  void expand_partitions(Node& node, const std::vector<Device>& devices) const;

 private:
  void read_links(Node& node, const std::vector<Device>& devices) const;
  void read_paths(Node& node, const std::vector<Device>& devices) const;
  [[nodiscard]] std::vector<Gpu> partitions(Device device, const Gpu& whole) const;

  template <class... Args>
  [[nodiscard]] Function<Args...> function(const char* name) const {
    return {handle_, name};
  }
  [[nodiscard]] std::optional<std::string> text_of(const char* name, Device device) const {
    std::array<char, 128> buffer{};
    if (!function<Device, char*, unsigned>(name)(device, buffer.data(), buffer.size())) return std::nullopt;
    return std::string(buffer.data());
  }

  void* handle_;
  bool started_ = false;
};

// MIG devices of a GPU in MIG mode; empty when it is whole.
std::vector<Gpu> Library::partitions(Device device, const Gpu& whole) const {
  unsigned current = 0, pending = 0, most = 0;
  if (!function<Device, unsigned*, unsigned*>("nvmlDeviceGetMigMode")(device, &current, &pending) || current == 0)
    return {};
  if (!function<Device, unsigned*>("nvmlDeviceGetMaxMigDeviceCount")(device, &most)) return {};
  std::vector<Gpu> parts;
  for (unsigned i = 0; i < most && i < 64; ++i) {
    Device part = nullptr;
    if (!function<Device, unsigned, Device*>("nvmlDeviceGetMigDeviceHandleByIndex")(device, i, &part)) continue;
    Gpu gpu = whole;
    const auto name = text_of("nvmlDeviceGetName", part).value_or("");
    const auto mark = name.find("MIG ");
    gpu.partition = mark == std::string::npos ? "MIG" : name.substr(mark + 4);
    gpu.uuid = text_of("nvmlDeviceGetUUID", part);
    gpu.nvlink.emplace();  // MIG devices have no peer access
    parts.push_back(std::move(gpu));
  }
  return parts;
}

void Library::read_links(Node& node, const std::vector<Device>& devices) const {
  std::vector<int> to_switches(devices.size());
  std::vector<bool> told(devices.size());
  for (std::size_t g = 0; g < devices.size(); ++g) {
    std::map<int, std::optional<int>> links;
    for (unsigned link = 0; link < kMostLinks; ++link) {
      unsigned active = 0;
      if (!function<Device, unsigned, unsigned*>("nvmlDeviceGetNvLinkState")(devices[g], link, &active)) continue;
      told[g] = true;
      if (active == 0) continue;
      int remote = 0xFF;
      function<Device, unsigned, int*>("nvmlDeviceGetNvLinkRemoteDeviceType")(devices[g], link, &remote);
      PciInfo peer{};
      const bool addressed =
          function<Device, unsigned, PciInfo*>("nvmlDeviceGetNvLinkRemotePciInfo_v2")(devices[g], link, &peer);
      const auto address = addressed ? PciAddress::parse(peer.bus_id) : std::nullopt;
      bool direct = false;
      for (const Gpu& other : node.gpus)
        if (address && other.pci == address) {
          auto& count = links.try_emplace(other.index, 0).first->second;
          count = *count + 1;
          direct = true;
        }
      if (!direct && remote == 2) ++to_switches[g];
    }
    if (told[g]) node.gpus[g].nvlink = std::move(links);
  }
  for (std::size_t a = 0; a < devices.size(); ++a)
    for (std::size_t b = 0; b < devices.size(); ++b)
      if (a != b && to_switches[a] > 0 && to_switches[b] > 0)
        (*node.gpus[a].nvlink)[node.gpus[b].index] = std::min(to_switches[a], to_switches[b]);
  // The driver answers "not supported" for every link of a card without NVLink: that is none, not unknown.
  for (std::size_t g = 0; g < devices.size(); ++g)
    if (!told[g]) node.gpus[g].nvlink.emplace();
}

void Library::read_paths(Node& node, const std::vector<Device>& devices) const {
  node.paths = PathTable(static_cast<int>(devices.size()));
  for (std::size_t a = 0; a < devices.size(); ++a)
    for (std::size_t b = a + 1; b < devices.size(); ++b) {
      int level = -1;
      if (!function<Device, Device, int*>("nvmlDeviceGetTopologyCommonAncestor")(devices[a], devices[b], &level))
        continue;
      std::optional<PathClass> path;
      if (level == 0 || level == 10) path = PathClass::kPix;
      if (level == 20) path = PathClass::kPxb;
      if (level == 30) path = PathClass::kPhb;
      if (level == 40) path = PathClass::kNode;
      if (level == 50) path = PathClass::kSys;
      node.paths.set(static_cast<int>(a), static_cast<int>(b), path);
    }
}

Node Library::read_identities(std::vector<Device>& devices) const {
  Node node;
  node.source = "NVML";
  unsigned count = 0;
  function<unsigned*>("nvmlDeviceGetCount_v2")(&count);
  for (unsigned i = 0; i < count; ++i) {
    Device device = nullptr;
    PciInfo pci{};
    if (!function<unsigned, Device*>("nvmlDeviceGetHandleByIndex_v2")(i, &device) ||
        !function<Device, PciInfo*>("nvmlDeviceGetPciInfo_v3")(device, &pci)) {
      node.warnings.push_back(fmt::format(
          "NVML lists GPU{} but gives no access to it (a cgroup or a failed card); nvidia-smi -i {} tells more", i, i));
      continue;
    }
    Gpu gpu;
    gpu.index = static_cast<int>(i);
    gpu.pci = PciAddress::parse(pci.bus_id);
    gpu.name = text_of("nvmlDeviceGetName", device);
    gpu.uuid = text_of("nvmlDeviceGetUUID", device);
    devices.push_back(device);
    node.gpus.push_back(std::move(gpu));
  }
  return node;
}

void Library::expand_partitions(Node& node, const std::vector<Device>& devices) const {
  std::vector<Gpu> expanded;
  for (std::size_t g = 0; g < devices.size(); ++g) {
    auto parts = partitions(devices[g], node.gpus[g]);
    if (parts.empty()) parts.push_back(node.gpus[g]);
    for (auto& part : parts) expanded.push_back(std::move(part));
  }
  if (std::none_of(expanded.begin(), expanded.end(), [](const Gpu& gpu) { return gpu.partition.has_value(); })) return;
  for (std::size_t i = 0; i < expanded.size(); ++i) expanded[i].index = static_cast<int>(i);
  node.gpus = std::move(expanded);
  node.paths = PathTable(static_cast<int>(node.gpus.size()));
  for (Gpu& gpu : node.gpus) gpu.nvlink.emplace();
  node.notes.emplace_back("MIG mode: each MIG device takes one rank, and none reaches another by NVLink");
}

std::optional<Node> Library::read() {
  std::vector<Device> devices;
  Node node = read_identities(devices);
  if (devices.empty() && node.warnings.empty()) return std::nullopt;
  for (std::size_t g = 0; g < devices.size(); ++g) {
    FabricInfo fabric{};
    if (!function<Device, FabricInfo*>("nvmlDeviceGetGpuFabricInfo")(devices[g], &fabric) || fabric.state != 3 ||
        fabric.status != kSuccess)
      continue;
    std::string uuid;
    bool zero = true;
    for (const unsigned char byte : fabric.cluster_uuid) {
      uuid += fmt::format("{:02x}", byte);
      zero = zero && byte == 0;
    }
    if (!zero) node.gpus[g].rack = fmt::format("{}.{}", uuid, fabric.clique_id);
  }
  read_links(node, devices);
  read_paths(node, devices);
  expand_partitions(node, devices);
  return node;
}

}  // namespace

std::optional<Node> read_nvml() {
  void* handle = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (handle == nullptr) return std::nullopt;
  Library library(handle);
  if (!library.start()) return std::nullopt;
  return library.read();
}

std::vector<Gpu> read_nvml_identities() {
  void* handle = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (handle == nullptr) return {};
  Library library(handle);
  if (!library.start()) return {};
  std::vector<Device> devices;
  Node node = library.read_identities(devices);
  library.expand_partitions(node, devices);
  std::stable_sort(node.gpus.begin(), node.gpus.end(), [](const Gpu& a, const Gpu& b) { return a.pci < b.pci; });
  return std::move(node.gpus);
}

NvmlStatus nvml_status() {
  NvmlStatus status;
  void* handle = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (handle == nullptr) {
    status.problem = "libnvidia-ml.so.1 is missing";
    return status;
  }
  const auto start = reinterpret_cast<int (*)()>(dlsym(handle, "nvmlInit_v2"));
  const int code = start != nullptr ? start() : -1;
  if (code == kSuccess) {
    std::array<char, 96> text{};
    if (Function<char*, unsigned>(handle, "nvmlSystemGetDriverVersion")(text.data(), text.size()))
      status.driver = text.data();
    Function<int*>(handle, "nvmlSystemGetCudaDriverVersion_v2")(&status.cuda);
    Function<>(handle, "nvmlShutdown")();
  } else {
    // nvmlReturn_t of the NVML API reference.
    status.problem = code == 9    ? "the driver is not loaded"
                     : code == 18 ? "driver and library version mismatch"
                     : code == 4  ? "no permission"
                                  : fmt::format("nvmlInit returned {}", code);
  }
  dlclose(handle);
  return status;
}

}  // namespace railyard::topology
