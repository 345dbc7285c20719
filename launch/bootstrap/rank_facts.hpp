// What each rank tells of itself before anything is decided: where it is, what it may use, what it sees.
#pragma once

#include <string>
#include <vector>

#include "launch/bootstrap/binding.hpp"
#include "launch/bootstrap/bootstrap.hpp"
#include "launch/bootstrap/devices.hpp"
#include "runtime/base/json.hpp"

namespace railyard::launch {

struct RankFacts {
  std::string host;
  int local_rank = 0;
  std::string cpus;  // that it may use, "0-3,8"
  int cores = 0;
  std::string core_cpus;  // CPUs of each of these cores, "0,64 1,65"; empty: as local rank 0 of this host tells
  VisibleDevices devices;
  std::vector<SeenGpu> gpus;  // by CUDA's ordinals (PCI order, masks applied); empty: none, or nobody tells
  bool cuda_part = false;     // librailyard_cuda.so is there
  Json node;  // this host as in topo --json; null: another rank of this host tells it, or no GPU is there

  [[nodiscard]] Json to_json() const;
  static RankFacts from_json(const Json& json);
};

// Reads this machine. The first rank of a host describes the node when it has GPUs, and so does a rank that a device
// cgroup keeps from some of them.
[[nodiscard]] RankFacts own_facts(const Identity& identity);

// "0,64 1,65" to cores and back. Anything else is passed over.
[[nodiscard]] std::string core_text(const std::vector<Core>& cores);
[[nodiscard]] std::vector<Core> parse_cores(const std::string& text);

}  // namespace railyard::launch
