// What NVIDIA's driver says about the health of a node's GPUs (NVML by dlopen; public API, long-stable entry points).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace railyard::launch {

// A GPU's health; what the driver does not tell is absent.
struct GpuHealth {
  int index = 0;
  std::string name, uuid;
  std::optional<unsigned long long> memory_bytes, memory_used_bytes;
  std::optional<unsigned long long> uncorrectable_ecc;  // since the driver was loaded
  std::optional<bool> remap_pending, remap_failed;      // of memory rows
  std::optional<unsigned long long> throttle;           // bits of nvmlClocksEventReasons
  std::optional<unsigned> pcie_width, pcie_width_most;
  std::optional<int> nvlinks_up, nvlinks_down;
  std::optional<unsigned long long> nvlink_errors;  // replays, recoveries and CRC errors of all links
  std::vector<unsigned> processes;                  // ids of those that compute on it
};

// Nothing when there is no driver, or it does not answer.
[[nodiscard]] std::optional<std::vector<GpuHealth>> read_gpu_health();

// Bits of `throttle` that slow a GPU down against its owner's wish: "hardware slowdown (power brake or heat)".
[[nodiscard]] std::string throttle_text(unsigned long long reasons);

// Waits for critical errors (XID) of all GPUs of the node on a thread of its own.
class XidWatch {
 public:
  // `on_error(gpu index, xid)`; called from the thread. Does nothing where NVML is missing.
  explicit XidWatch(std::function<void(int gpu, unsigned long long xid)> on_error);
  XidWatch(const XidWatch&) = delete;
  XidWatch& operator=(const XidWatch&) = delete;
  ~XidWatch();
  [[nodiscard]] bool watching() const { return watching_; }

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
  bool watching_ = false;
};

}  // namespace railyard::launch
