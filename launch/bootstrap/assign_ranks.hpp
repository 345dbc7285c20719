// From the facts of all ranks to which coordinate, GPU, NICs, CPUs and environment each of them takes: what the one
// rank that evaluates Lua settles for all.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/bootstrap/rank_environment.hpp"
#include "launch/bootstrap/rank_facts.hpp"
#include "launch/place/site_network.hpp"
#include "lua/site.hpp"
#include "runtime/base/job.hpp"
#include "runtime/base/layout.hpp"

namespace railyard::launch {

// One rank's part; carried to it as JSON.
struct RankAssignment {
  int logical = 0;        // rank of the layout
  int ordinal = -1;       // CUDA device among `visible`; -1: runs on CPUs
  std::string visible;    // CUDA_VISIBLE_DEVICES to set; empty: as the rank found it
  std::string cpus;       // to bind to; empty: stay as started
  NetworkFacts network;   // of a rank with a GPU
  Environment site_hook;  // the site's on_env(rank)

  [[nodiscard]] Json to_json() const;
  static RankAssignment from_json(const Json& json);
};

struct Assignment {
  std::vector<RankAssignment> ranks;  // by the rank of whoever started them
  Json record;                        // placement-N.json: layout, device, map, links, seconds by order, notes
  std::string table;                  // the whole comparison, for log/
  std::vector<std::string> summary;   // lines for people
};

struct AssignmentInput {
  const JobSpec& job;
  const Layout& layout;
  std::string device;  // "cpu" or "cuda"
  std::vector<RankFacts> facts;
  Json site_values;                        // of the site, in this partition
  std::optional<topology::Fabric> fabric;  // Slurm's; a file that the site names counts more
  lua::SiteFile* site = nullptr;           // its hooks; may be null
};

// Works in whatever order srun or mpirun started the ranks: a rank takes the coordinate that placement puts on its GPU
// (on CPUs: on a place of its node). The site's on_node(topo) sees each node before placement, on_map(placement) the
// map after it, and on_env(rank) every rank. UsageError when ranks would share a device, a hook's answer is no
// placement, or the layout cannot be placed. The same input gives the same answer.
[[nodiscard]] Assignment assign_ranks(const AssignmentInput& input);

}  // namespace railyard::launch
