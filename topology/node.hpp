// A node: its GPUs, its NICs and what joins them. An empty optional means unknown; none is an empty list or map.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "topology/cpuset.hpp"
#include "topology/pci.hpp"

namespace railyard::topology {

// How a path between two devices runs, in the words of `nvidia-smi topo -m`, nearest first. NVLink is kept apart, in
// Gpu::nvlink: a pair of GPUs has both a PCIe path and perhaps links.
enum class PathClass { kPix, kPxb, kPhb, kNode, kSys };

[[nodiscard]] std::string_view path_name(PathClass path);
[[nodiscard]] std::optional<PathClass> parse_path(std::string_view word);  // also the older SOC for SYS

enum class NicRole { kRail, kOther };

struct Gpu {
  int index = 0;                    // as the source numbers it
  std::optional<std::string> name;  // the model, such as "NVIDIA H200"
  std::optional<PciAddress> pci;
  std::optional<std::string> uuid;
  std::optional<int> numa;               // the CPU-side NUMA node, never the GPU's own memory node
  std::optional<CpuSet> cpus;            // near CPUs; empty: a cgroup left none of them
  std::optional<std::string> partition;  // MIG profile, or "1/8" of a partitioned GPU; empty optional: unknown or whole
  std::optional<std::map<int, std::optional<int>>> nvlink;  // peer index -> NVLink or XGMI links (count may be unknown)
  std::optional<std::string> rack;  // NVLink domain across nodes (cluster UUID and clique, or a block's name)

  // Set by assign_rails().
  std::optional<std::string> nic;                     // the NIC whose rail this GPU uses
  std::optional<std::vector<std::string>> near_nics;  // rail NICs at the nearest class; empty: none is near
  std::optional<PathClass> path;                      // to `nic`, or to the nearest NIC when none is near
  std::optional<int> rail;                            // `nic` in PCI order among the node's rail NICs
};

struct Nic {
  std::string name;  // mlx5_0, rdmap16s27, hsi0; the PCI address where the source has no name
  std::optional<PciAddress> pci;
  std::optional<int> numa;
  std::optional<NicRole> role;  // set by assign_rails()
  std::optional<bool> active;   // a port is up
  std::optional<double> rate_gbps;
  std::optional<std::string> link_layer;  // "InfiniBand", "Ethernet", "EFA", "Slingshot"
  std::optional<bool> rdma;               // a fabric device; false: a plain network interface
};

// Path classes between devices: GPU i is device i, NIC j is device gpus + j. Symmetric; the diagonal is unset. Sources
// that show the PCI tree also give the number of bridges crossed, which tells near from far within a class.
class PathTable {
 public:
  PathTable() = default;
  explicit PathTable(int devices) : devices_(devices), cells_(static_cast<std::size_t>(devices) * devices) {}
  [[nodiscard]] int devices() const { return devices_; }
  [[nodiscard]] std::optional<PathClass> at(int a, int b) const;
  [[nodiscard]] int hops(int a, int b) const;  // 0 where the source does not tell
  void set(int a, int b, std::optional<PathClass> path, int hops = 0);

 private:
  struct Cell {
    std::optional<PathClass> path;
    int hops = 0;
  };
  int devices_ = 0;
  std::vector<Cell> cells_;
};

struct Node {
  std::optional<std::string> name;
  std::string source;     // what the facts were read from
  std::vector<Gpu> gpus;  // ascending by index
  std::vector<Nic> nics;
  PathTable paths;
  std::vector<std::string> warnings;  // what is wrong or degraded: a finding of `topo --check`
  std::vector<std::string> notes;     // what is unknown, shared or assumed

  [[nodiscard]] std::optional<PathClass> gpu_path(int gpu, int other) const { return paths.at(gpu, other); }
  [[nodiscard]] std::optional<PathClass> nic_path(int gpu, int nic) const {
    return paths.at(gpu, static_cast<int>(gpus.size()) + nic);
  }
  // Position in `gpus` of the GPU with this index; nullopt when there is none.
  [[nodiscard]] std::optional<int> position_of(int gpu_index) const;
  [[nodiscard]] const Nic* find_nic(std::string_view nic_name) const;
};

// Drops NVLink edges that point at their own GPU or at none of the node, and makes the rest symmetric; each is a
// warning. Sources call it once their GPUs are complete.
void normalise_links(Node& node);

// Orders GPUs by PCI address (partitions of one stay in order) and numbers them anew from 0, as CUDA does with
// CUDA_DEVICE_ORDER=PCI_BUS_ID. Nothing happens when an address is unknown.
void sort_by_pci(Node& node);

// GPU indices joined by NVLink, directly or through others: components of two or more, ascending. nullopt when no GPU
// tells its links.
[[nodiscard]] std::optional<std::vector<std::vector<int>>> nvlink_domains(const Node& node);

// True when every pair of the given GPU indices is joined directly.
[[nodiscard]] bool is_clique(const Node& node, const std::vector<int>& gpu_indices);

}  // namespace railyard::topology
