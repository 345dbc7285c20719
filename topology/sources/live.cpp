// The node this process runs on: hwloc's view (read back through its XML, so that files and live machines take one
// path), then sysfs, then NVML.
#include <hwloc.h>
#include <unistd.h>

#include <array>
#include <memory>

#include "runtime/base/error.hpp"
#include "topology/merge.hpp"
#include "topology/rails.hpp"
#include "topology/sources/nvml.hpp"
#include "topology/sources/source.hpp"
#include "topology/sources/sysfs.hpp"

namespace railyard::topology {
namespace {

struct TopologyDeleter {
  void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
};

std::string hwloc_xml() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) throw RunError("hwloc cannot start (hwloc_topology_init failed)");
  const std::unique_ptr<hwloc_topology, TopologyDeleter> topology(raw);
  hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  if (hwloc_topology_load(raw) != 0) throw RunError("hwloc cannot read this machine; lstopo tells more");
  char* buffer = nullptr;
  int length = 0;
  if (hwloc_topology_export_xmlbuffer(raw, &buffer, &length, 0) != 0) throw RunError("hwloc cannot write its topology");
  std::string text(buffer, static_cast<std::size_t>(length > 0 ? length - 1 : 0));  // the length counts the final NUL
  hwloc_free_xmlbuffer(raw, buffer);
  return text;
}

// Puts hwloc's GPUs into NVML's order and splits those that NVML shows as MIG devices, so that both describe the same
// list. GPUs that NVML does not show come last.
void adopt_order(Node& node, const Node& nvml) {
  std::vector<Gpu> gpus;
  std::vector<int> origin;
  std::vector<bool> used(node.gpus.size());
  for (const Gpu& theirs : nvml.gpus)
    for (std::size_t g = 0; g < node.gpus.size(); ++g) {
      if (!theirs.pci || node.gpus[g].pci != theirs.pci) continue;
      Gpu gpu = node.gpus[g];
      gpu.partition = theirs.partition;
      gpus.push_back(std::move(gpu));
      origin.push_back(static_cast<int>(g));
      used[g] = true;
    }
  for (std::size_t g = 0; g < node.gpus.size(); ++g)
    if (!used[g]) {
      gpus.push_back(node.gpus[g]);
      origin.push_back(static_cast<int>(g));
    }
  for (std::size_t g = 0; g < gpus.size(); ++g) gpus[g].index = static_cast<int>(g);
  const auto before = static_cast<int>(node.gpus.size()), after = static_cast<int>(gpus.size()),
             nics = static_cast<int>(node.nics.size());
  const auto old_device = [&](int device) {
    return device < after ? origin[static_cast<std::size_t>(device)] : device - after + before;
  };
  PathTable paths(after + nics);
  for (int a = 0; a < after + nics; ++a)
    for (int b = a + 1; b < after + nics; ++b)
      paths.set(
          a, b,
          old_device(a) == old_device(b) ? std::optional(PathClass::kPix) : node.paths.at(old_device(a), old_device(b)),
          node.paths.hops(old_device(a), old_device(b)));
  node.gpus = std::move(gpus);
  node.paths = std::move(paths);
}

}  // namespace

Node read_live_node() {
  Node node = std::move(read_hwloc_xml(hwloc_xml(), "this machine").nodes.front());
  node.source = "hwloc";
  if (const auto nvml = read_nvml()) {
    adopt_order(node, *nvml);
    merge_node(node, *nvml);
  }
  add_sysfs_facts(node);
  node.source += " + sysfs";
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) == 0) node.name = host.data();
  assign_rails(node);
  return node;
}

}  // namespace railyard::topology
