// The machine as placement sees it: slots (one per granted GPU), the tree of what contains them, links with capacities,
// and the links that bytes between two slots cross.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "launch/place/allocation.hpp"

namespace railyard::launch {

// What the bytes between two slots cross, nearest first; the classes of plan --json.
enum class LinkClass { kSelf, kNvlink, kPcie, kHost, kRail, kCrossRail, kLeaf, kSpine, kUnknown };
[[nodiscard]] std::string_view link_class_name(LinkClass link);
inline constexpr int kLinkClasses = 9;

struct Slot {
  int node = 0;
  int gpu = 0;        // index in the node's own numbering
  int position = -1;  // in AllocatedNode::facts.gpus; -1 without GPUs
  int nic = -1;       // id of the NIC used, -1: the node's own, shared by all its GPUs
  int rail = -1;      // -1: unknown or none
  int model = 0;      // GPUs of one model share a number
};

// The links of one route; at most nvlink or pcie ends, NICs, host links and both directions of each switch level.
struct Route {
  std::array<int, 20> links{};
  int count = 0;
  LinkClass kind = LinkClass::kSelf;
  void add(int link) {
    if (count < static_cast<int>(links.size())) links[static_cast<std::size_t>(count++)] = link;
  }
};

// A container of slots: a node, an NVLink rack, a leaf, spines, the whole. Children in natural order of names.
struct Container {
  int parent = -1;
  int level = 0;  // 0: node, rising
  std::vector<int> children;
  std::vector<int> slots;  // of a node
};

class MachineGraph {
 public:
  // UsageError when a granted GPU is not on its node, or the allocation is empty.
  MachineGraph(const Allocation& allocation, const LinkRates& rates);

  [[nodiscard]] const std::vector<Slot>& slots() const { return slots_; }
  [[nodiscard]] const std::vector<Container>& containers() const { return containers_; }
  [[nodiscard]] int root() const { return root_; }
  [[nodiscard]] const std::vector<double>& capacities() const { return capacities_; }  // bytes per second, by link
  [[nodiscard]] Route route(int from, int to) const;
  // Bandwidth of the narrowest link between two slots of one node, in bytes per second.
  [[nodiscard]] double pair_bandwidth(int from, int to) const;
  [[nodiscard]] int leaf_of(int slot) const {
    return leaf_[static_cast<std::size_t>(slots_[static_cast<std::size_t>(slot)].node)];
  }
  // Some node joins its GPUs by links of their own, not by a switch.
  [[nodiscard]] bool has_mesh() const { return has_mesh_; }
  // Slots whose nodes have the same signature are arranged alike.
  [[nodiscard]] const std::string& signature(int node) const { return signatures_[static_cast<std::size_t>(node)]; }
  [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }  // rates that were assumed

 private:
  enum class PairKind : std::uint8_t { kSwitched, kMesh, kPcie, kHost, kUnknown };
  void add_node(const AllocatedNode& node, const LinkRates& rates);
  void add_pairs(const AllocatedNode& node, int first, const LinkRates& rates);
  void add_containers(const Allocation& allocation, const LinkRates& rates);
  int add_link(double gigabytes_per_second);

  struct NodeLinks {
    int first_slot = 0, count = 0, pair_base = 0, host_link = 0;
    bool near_nics = true;
  };
  std::vector<Slot> slots_;
  std::vector<NodeLinks> nodes_;
  std::vector<PairKind> pair_kinds_;        // per node a matrix, at pair_base
  std::vector<int> pair_links_;             // link of a mesh pair
  std::vector<int> nvlink_out_, pcie_out_;  // per slot; the in direction is the next link
  std::vector<int> nic_out_;                // per NIC id
  std::vector<char> far_nic_;               // per slot: its NIC is across the sockets
  std::vector<Container> containers_;
  std::vector<int> leaf_, rack_;            // per node; -1 unknown
  std::vector<std::vector<int>> switches_;  // per node: leaf, spine, ... as ids with uplinks
  std::vector<int> uplink_;                 // per switch id: link up; down is the next link
  std::vector<double> capacities_;
  std::vector<std::string> signatures_, notes_, models_;
  int root_ = 0;
  bool rail_optimised_ = true, has_mesh_ = false;
};

}  // namespace railyard::launch
