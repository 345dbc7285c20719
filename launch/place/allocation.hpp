// What placement is given: the nodes of an allocation with the GPUs actually granted on each, the fabric between them,
// and how much each axis of the layout sends.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/layout.hpp"
#include "topology/machine.hpp"

namespace railyard::launch {

struct AllocatedNode {
  std::string name;
  topology::Node facts;   // rails assigned; without GPUs (a CPU run) its slots are alike
  std::vector<int> gpus;  // indices granted, in `facts`' numbering; without GPUs just 0, 1, ...
};

struct Allocation {
  std::vector<AllocatedNode> nodes;        // in Slurm's order
  std::optional<topology::Fabric> fabric;  // leaves and NVLink racks (blocks); unknown: all nodes count as equally far
  bool rail_optimised = true;      // each rail has leaf switches of its own, so a change of rail crosses a spine
  bool blocks_are_nvlink = false;  // the fabric's blocks are NVLink domains (NVL72), not scheduling blocks

  [[nodiscard]] int slots() const;
};

// Bytes that each rank sends per optimizer step along an axis: collectives as a ring (tp, cp, dp, etp, edp), pipeline
// neighbours in each direction (pp), all-to-all in total (ep). Absent axes send nothing.
using Traffic = std::map<Axis, double>;

// Rates in GB/s (1e9 bytes) per direction, used where the machine does not tell. A taper of 2 means that a switch's
// uplinks carry half of what its downlinks can; where the fabric's taper is unknown it stands for what hash collisions
// of flows leave.
struct LinkRates {
  double nvlink_per_link = 25;  // V100 to H200; 50 from Blackwell on and 20 for P100 are taken from the GPU's name
  double nvlink_unknown = 150;  // per GPU, where links are joined but not counted
  double pcie = 25;             // per GPU; at least what a NIC behind the same switch takes
  double host = 20;             // between the sockets of a node
  double nic = 48.5;            // a 400 Gb/s NIC as measured; a known rate replaces it at the same efficiency
  double leaf_taper = 2, spine_taper = 2;
};

}  // namespace railyard::launch
