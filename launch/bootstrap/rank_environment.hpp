// The environment variables that a rank sets for MPI, UCX, NCCL, CUDA and OpenMP before any of them starts.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/process.hpp"

namespace railyard::launch {

struct NetworkFacts {
  std::string fabric;                          // "ib", "roce", "efa", "slingshot", "tcp"; empty: unknown
  std::vector<std::string> rail_nics;          // of this rank's node, every one; "mlx5_0" (port 1) or "mlx5_0:2"
  std::optional<std::string> nic;              // the one nearest this rank's GPU
  std::vector<std::string> socket_interfaces;  // for bootstrap traffic, exact names
  std::optional<int> gid_index;                // RoCE
};

// Who set a variable, from the weakest: we, the site's setenv, the user's own environment, the site's on_env(rank), the
// job's run.setenv.
struct EnvironmentSources {
  Environment inherited;  // of this process
  Environment site, site_hook, job;
  NetworkFacts network;
  int threads = 1;
  bool cuda = false;
};

// Variables to set in this process; those that are set to the same already are left out. `notes` takes a line for each
// variable of ours that the user's environment overrides.
//
// NCCL_IB_HCA lists the node's rail NICs by exact name ("=mlx5_0,mlx5_3"), the same on all its ranks; NCCL picks the
// nearest. UCX_NET_DEVICES alone is per rank. Neither is set on EFA and Slingshot, whose plug-ins choose themselves.
[[nodiscard]] Environment rank_environment(const EnvironmentSources& sources, std::vector<std::string>& notes);

}  // namespace railyard::launch
