// What joins nodes: switches in a tree, and blocks of nodes joined by NVLink (an NVL72 rack) or by scheduling rule.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace railyard::topology {

struct Switch {
  std::string name;
  int level = 0;                      // 0: a leaf, to which nodes are attached
  std::optional<std::string> parent;  // empty optional: the top, or unknown
  std::vector<std::string> nodes;     // attached directly
};

struct Block {
  std::string name;
  std::vector<std::string> nodes;
};

struct Fabric {
  std::string kind;  // "tree", "block", "flat", "tree+block"
  std::string source;
  std::vector<Switch> switches;
  std::vector<Block> blocks;
  std::vector<int> block_sizes;  // Slurm's BlockSizes; empty: not given
  std::vector<std::string> warnings, notes;

  [[nodiscard]] const Switch* find_switch(const std::string& switch_name) const;
};

// Switches nested deeper than this are refused: real trees have three to five levels.
inline constexpr int kDeepestFabric = 64;

// Sets the levels of a fabric whose parents are known (0 below, one more than the highest child above) and notes what
// is wrong: cycles, a parent that is not described, nodes on two leaves, several tops. Cycles are cut with a warning.
// UsageError, naming fabric.source, beyond kDeepestFabric.
void finish_fabric(Fabric& fabric);

// For each node name its leaf, then that leaf's parents up to the top, as indices into `switches`.
[[nodiscard]] std::map<std::string, std::vector<int>> switch_paths(const Fabric& fabric);

// A fat tree for tests and planning: `nodes` named "node1"... (natural order, `node_width` pads with zeros) dealt to
// leaves of `nodes_per_leaf`; `leaves_per_spine` leaves below each spine (0: one spine), one core above several spines.
// With `round_robin`, consecutive names go to different leaves, as in machines cabled by rack position.
struct FatTreeSpec {
  int nodes = 0;
  int nodes_per_leaf = 32;
  int leaves_per_spine = 0;
  int node_width = 0;
  bool round_robin = false;
};
[[nodiscard]] Fabric make_fat_tree(const FatTreeSpec& spec);

// Racks joined by NVLink: `racks` blocks of `nodes_per_rack` nodes, each rack below its own leaf, all under one spine.
[[nodiscard]] Fabric make_nvlink_racks(int racks, int nodes_per_rack = 18);

}  // namespace railyard::topology
