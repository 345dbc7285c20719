// Which NVIDIA devices a rank can see, told without starting CUDA: the environment must be set before CUDA starts.
#pragma once

#include <string>
#include <vector>

namespace railyard::launch {

struct VisibleDevices {
  int count = 0;        // ordinals 0..count-1 of CUDA
  std::string mask;     // CUDA_VISIBLE_DEVICES
  int on_node = 0;      // device nodes of the machine
  int openable = 0;     // those that this process may open; fewer: a device cgroup hides the rest
  bool masked = false;  // CUDA_VISIBLE_DEVICES is set, also when it is empty (no device)
};

// A GPU, or a MIG device of one, as CUDA names it.
struct SeenGpu {
  std::string uuid;  // "GPU-..." or "MIG-..."; empty: unknown
  std::string pci;   // "0000:18:00.0"
  bool mig = false;
  friend bool operator==(const SeenGpu&, const SeenGpu&) = default;
};

// From CUDA_VISIBLE_DEVICES and the device nodes below `device_folder` (nvidia0, nvidia1, ...).
[[nodiscard]] VisibleDevices visible_devices(const std::string& device_folder = "/dev");

// What CUDA_VISIBLE_DEVICES leaves of the devices that a process may open, given in PCI order: numbers count whole
// GPUs, names are UUIDs or unambiguous beginnings of them, and the first entry that names nothing ends the list (CUDA
// C++ Programming Guide, environment variables). A number of a GPU in MIG mode shows its first MIG device.
[[nodiscard]] std::vector<SeenGpu> shown_by_mask(const std::vector<SeenGpu>& openable, const std::string& mask);

// What is lost where devices are hidden from ranks of one host, as lines for people: by a mask, which is widened to
// what the host's ranks were given together when `widened`, and by a device cgroup, which stays. `local` holds what
// the ranks see.
[[nodiscard]] std::vector<std::string> masking_notes(const std::vector<VisibleDevices>& local, bool widened);

// CUDA's ordinal for each local rank where UUIDs are unknown: its own where each sees a device of its own, the local
// rank's number where all see all. UsageError when two ranks would have to share one (also a MIG device), unless they
// may (`shared`): then in turn, which is for trying layouts over the MPI communicator, never for MIG devices.
[[nodiscard]] std::vector<int> device_ordinals(const std::string& host, const std::vector<VisibleDevices>& local,
                                               bool shared = false);

}  // namespace railyard::launch
