// Placement: which node, GPU, NIC and CPUs each rank of a layout gets.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/place/allocation.hpp"
#include "launch/place/cost.hpp"
#include "topology/cpuset.hpp"

namespace railyard::launch {

struct RankPlace {
  int node = 0;                          // position in Allocation::nodes
  int gpu = 0;                           // index as the node numbers it
  std::optional<std::string> nic;        // the NIC of its rail; empty: unknown or none
  std::optional<topology::CpuSet> cpus;  // its share of the GPU's near CPUs; empty: unknown or none left
};

struct Placement {
  std::vector<RankPlace> ranks;  // by logical rank
  std::vector<int> slot_of;      // by logical rank: position in MachineGraph::slots
  PlacementCost cost;
  std::vector<std::string> notes;  // compromises with their cost, idle GPUs, assumed rates
};

// Orders that other launchers give ranks.
enum class RankOrder {
  kSlurmBlock,    // nodes in Slurm's order, filled one after the other
  kSlurmCyclic,   // nodes in Slurm's order, one rank each in turn
  kAlphabetical,  // nodes by the text of their names, as torchrun's rendezvous sorts them
};
[[nodiscard]] std::string_view rank_order_name(RankOrder order);

// Minimises the objective of cost.hpp: candidates nest the axes in every order into the tree of the machine
// (pack_slots), large axes also split; the best are improved by exchanging ranks, and up to 8 GPUs are searched
// exhaustively. Never worse than the three orders above. The same input gives the same placement. UsageError when there
// are fewer GPUs than ranks, or every choice would put unlike GPUs into one tp group. About 0.5 s for 10,000 GPUs.
[[nodiscard]] Placement place(const Layout& layout, const Allocation& allocation, const Traffic& traffic,
                              const LinkRates& rates = {});

// The placement that an order gives, for comparison.
[[nodiscard]] Placement place_in_order(const Layout& layout, const Allocation& allocation, const Traffic& traffic,
                                       RankOrder order, const LinkRates& rates = {});

// The placement that puts each rank on a given slot (MachineGraph::slots).
[[nodiscard]] Placement place_as(const Layout& layout, const Allocation& allocation, const Traffic& traffic,
                                 std::vector<int> slot_of, const LinkRates& rates = {});

}  // namespace railyard::launch
