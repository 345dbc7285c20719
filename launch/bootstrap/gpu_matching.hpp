// Gives each rank of a host one of the GPUs that it can see.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/bootstrap/rank_facts.hpp"
#include "topology/node.hpp"

namespace railyard::launch {

// The node of a host from what its ranks tell: facts of several are merged, GPUs stand in PCI order with their UUIDs.
// Where a device cgroup hides GPUs, NVLink is unknown rather than none. nullopt when no rank tells the node, or a GPU
// that a rank sees is not on it.
[[nodiscard]] std::optional<topology::Node> node_of_host(const std::vector<const RankFacts*>& ranks);

// For each rank the index (topology::Gpu::index) of its GPU. A rank with CPUs of its own gets a GPU near them where one
// can be had; of more GPUs than ranks those of one NVLink domain with rails of their own are taken first. UsageError
// with the remedy when the ranks cannot each have one (a MIG device, too, takes one rank).
[[nodiscard]] std::vector<int> match_gpus(const topology::Node& node, const std::vector<const RankFacts*>& ranks);

// CUDA_VISIBLE_DEVICES of a rank, and the ordinal of its own GPU in it: every GPU that this run has on the host and
// this process may open, by UUID in PCI order, so that peers stay visible; a MIG device alone.
struct DeviceView {
  std::string visible;
  int ordinal = 0;
};
[[nodiscard]] DeviceView device_view(const topology::Node& node, const RankFacts& rank, int own,
                                     const std::vector<int>& used);

}  // namespace railyard::launch
