// Which NVIDIA devices a rank can see, told without starting CUDA: the environment must be set before CUDA starts.
#pragma once

#include <string>
#include <vector>

namespace railyard::launch {

struct VisibleDevices {
  int count = 0;     // ordinals 0..count-1 of CUDA
  std::string mask;  // CUDA_VISIBLE_DEVICES; empty: not masked that way
  int on_node = 0;   // device nodes of the machine
  int openable = 0;  // those that this process may open; fewer: a device cgroup hides the rest
};

// From CUDA_VISIBLE_DEVICES and the device nodes below `device_folder` (nvidia0, nvidia1, ...).
[[nodiscard]] VisibleDevices visible_devices(const std::string& device_folder = "/dev");

// What is lost by hiding devices from ranks, as one line each: peers that NCCL cannot reach by NVLink or P2P. `local`
// holds what the ranks of one host see.
[[nodiscard]] std::vector<std::string> masking_notes(const std::string& host, const std::vector<VisibleDevices>& local);

// CUDA's ordinal for each local rank: its own where each sees a device of its own, the local rank's number where all
// see all. UsageError when two ranks would have to share one (also a MIG device), unless they may (`shared`): then in
// turn, which is for trying layouts over the MPI communicator, never for MIG devices.
[[nodiscard]] std::vector<int> device_ordinals(const std::string& host, const std::vector<VisibleDevices>& local,
                                               bool shared = false);

}  // namespace railyard::launch
