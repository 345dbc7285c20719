// The cluster that a job is planned for or placed on: nodes, GPUs, NICs and fabric, from live topology where there is
// one, and from the site file where there is not. The one place where a site becomes placement's inputs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/place/allocation.hpp"
#include "launch/plan/gpu_spec.hpp"
#include "runtime/base/json.hpp"
#include "topology/machine.hpp"

namespace railyard::launch {

struct Cluster {
  Allocation allocation;
  LinkRates rates;
  std::string gpu;                        // the GPUs' name; empty: there are none, or their kind is unknown
  std::optional<GpuSpec> spec;            // of `gpu`; nullopt: not in the table
  bool has_gpus = false;                  // false: ranks compute on CPUs
  std::optional<int> nvlink_domain;       // GPUs joined by NVLink, across nodes in a rack; 1: none; nullopt: unknown
  std::optional<double> node_memory_gib;  // host memory
  std::string fabric_kind;                // "ib", "roce", "efa", "slingshot", "tcp"; empty: unknown
  std::string origin;                     // where it is from, for people: "site dgx-h100, 4 nodes"
  std::vector<std::string> guesses;       // what was assumed, one line each

  [[nodiscard]] int nodes() const { return static_cast<int>(allocation.nodes.size()); }
  [[nodiscard]] int slots() const { return allocation.slots(); }
  [[nodiscard]] int slots_per_node() const;  // of the largest node
};

// `site` below is lua::SiteFile::resolved() or for_partition().

// `nodes` nodes as the site describes them, with made-up names (of nodes and NICs) unless fabric.topology names a file,
// whose first nodes are taken. GPUs have the links and rails that the site tells; PCI addresses, NUMA nodes and CPUs
// stay unknown. Where the site has no GPUs, each node takes `cpu_ranks` ranks. UsageError naming the key when a file
// cannot be read or knows fewer nodes.
[[nodiscard]] Cluster synthetic_cluster(const Json& site, int nodes, int cpu_ranks);

// Nodes as they were found. `granted[i]` are the GPUs of node i that may be used, in the node's numbering (empty list
// of lists: all). NICs of fabric.nic_exclude are no rails. What the site knows beyond that is taken from it: rates, the
// fabric of fabric.topology, NVLink racks. Nodes without GPUs take `cpu_ranks` ranks.
[[nodiscard]] Cluster live_cluster(const Json& site, topology::Machine machine,
                                   const std::vector<std::vector<int>>& granted, int cpu_ranks);

// Removes NICs that are no rails from a node and assigns its rails anew, where any of them is there.
void exclude_nics(topology::Node& node, const std::vector<std::string>& excluded);

}  // namespace railyard::launch
