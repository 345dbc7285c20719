// What a site file tells placement and start-up of its network.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/bootstrap/rank_environment.hpp"
#include "launch/place/allocation.hpp"
#include "runtime/base/json.hpp"

namespace railyard::launch {

// The parts of a site's values (lua::SiteFile::for_partition) that describe nodes and network.
struct SiteNetwork {
  std::string fabric;              // "ib", "roce", "efa", "slingshot", "tcp"; empty: unknown
  std::vector<std::string> ports;  // "mlx5_0:1"; empty: port 1 of every rail NIC
  std::vector<std::string> socket_interfaces;
  std::optional<int> gid_index;
  std::optional<std::string> topology;  // "slurm", or a file

  static SiteNetwork from_site(const Json& values);
};

// The NICs and variables of a rank whose GPU is `gpu`. The fabric that the site does not name is told by the link layer
// of the node's rail NICs. Rail NICs that are down are left out.
[[nodiscard]] NetworkFacts network_of(const SiteNetwork& site, const topology::Node& node, const topology::Gpu* gpu);

// Switches and blocks by `scontrol show topology`, inside a Slurm allocation and where the site names no file of its
// own (launch/plan/cluster.hpp reads that). nullopt where there is none; a controller that does not answer is a line in
// `notes`.
[[nodiscard]] std::optional<topology::Fabric> find_fabric(const SiteNetwork& site, std::vector<std::string>& notes);

}  // namespace railyard::launch
