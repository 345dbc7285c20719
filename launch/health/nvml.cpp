// Reads NVML's counters and waits for its events.
#include "launch/health/nvml.hpp"

#include <dlfcn.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>

namespace railyard::launch {
namespace {

using Device = void*;
using EventSet = void*;
constexpr int kSuccess = 0;
constexpr unsigned kMostLinks = 36;
constexpr unsigned long long kXidEvents = 8;  // nvmlEventTypeXidCriticalError

struct MemoryInfo {
  unsigned long long total, free, used;
};
struct ProcessInfo {
  unsigned pid;
  unsigned long long memory;
  unsigned gpu_instance, compute_instance;
};
struct EventData {
  Device device;
  unsigned long long type, data;
  unsigned gpu_instance, compute_instance;
};

// The library while it is in use.
class Nvml {
 public:
  Nvml() : handle_(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ != nullptr) started_ = call("nvmlInit_v2");
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;
  ~Nvml() {
    if (started_) call("nvmlShutdown");
    if (handle_ != nullptr) dlclose(handle_);
  }
  [[nodiscard]] bool started() const { return started_; }
  // False when the library lacks the function or it fails.
  template <class... Args>
  bool call(const char* name, Args... args) const {
    const auto function = reinterpret_cast<int (*)(Args...)>(dlsym(handle_, name));
    return function != nullptr && function(args...) == kSuccess;
  }
  [[nodiscard]] std::vector<Device> devices() const {
    unsigned count = 0;
    std::vector<Device> list;
    if (!call("nvmlDeviceGetCount_v2", &count)) return list;
    for (unsigned i = 0; i < count && i < 1024; ++i) {
      Device device = nullptr;
      if (call("nvmlDeviceGetHandleByIndex_v2", i, &device)) list.push_back(device);
    }
    return list;
  }

 private:
  void* handle_;
  bool started_ = false;
};

std::string text_of(const Nvml& nvml, const char* name, Device device) {
  std::array<char, 128> buffer{};
  return nvml.call(name, device, buffer.data(), static_cast<unsigned>(buffer.size())) ? buffer.data() : "";
}

void read_links(const Nvml& nvml, Device device, GpuHealth& gpu) {
  for (unsigned link = 0; link < kMostLinks; ++link) {
    unsigned active = 0;
    if (!nvml.call("nvmlDeviceGetNvLinkState", device, link, &active)) continue;
    if (!gpu.nvlinks_up) gpu.nvlinks_up = gpu.nvlinks_down = 0;
    ++*(active != 0 ? gpu.nvlinks_up : gpu.nvlinks_down);
    for (unsigned counter = 0; counter < 4; ++counter) {
      unsigned long long errors = 0;
      if (nvml.call("nvmlDeviceGetNvLinkErrorCounter", device, link, counter, &errors))
        gpu.nvlink_errors = gpu.nvlink_errors.value_or(0) + errors;
    }
  }
}

GpuHealth read_gpu(const Nvml& nvml, Device device, int index) {
  GpuHealth gpu;
  gpu.index = index;
  gpu.name = text_of(nvml, "nvmlDeviceGetName", device);
  gpu.uuid = text_of(nvml, "nvmlDeviceGetUUID", device);
  MemoryInfo memory{};
  if (nvml.call("nvmlDeviceGetMemoryInfo", device, &memory)) {
    gpu.memory_bytes = memory.total;
    gpu.memory_used_bytes = memory.used;
  }
  unsigned long long count = 0;
  // nvmlMemoryErrorType uncorrected = 1, nvmlEccCounterType volatile = 0
  if (nvml.call("nvmlDeviceGetTotalEccErrors", device, 1, 0, &count)) gpu.uncorrectable_ecc = count;
  unsigned corrected = 0, uncorrected = 0, pending = 0, failed = 0;
  if (nvml.call("nvmlDeviceGetRemappedRows", device, &corrected, &uncorrected, &pending, &failed)) {
    gpu.remap_pending = pending != 0;
    gpu.remap_failed = failed != 0;
  }
  if (nvml.call("nvmlDeviceGetCurrentClocksThrottleReasons", device, &count)) gpu.throttle = count;
  unsigned width = 0;
  if (nvml.call("nvmlDeviceGetCurrPcieLinkWidth", device, &width)) gpu.pcie_width = width;
  if (nvml.call("nvmlDeviceGetMaxPcieLinkWidth", device, &width)) gpu.pcie_width_most = width;
  std::array<ProcessInfo, 64> processes{};
  auto most = static_cast<unsigned>(processes.size());
  if (nvml.call("nvmlDeviceGetComputeRunningProcesses_v3", device, &most, processes.data()))
    for (unsigned i = 0; i < most && i < processes.size(); ++i) gpu.processes.push_back(processes[i].pid);
  read_links(nvml, device, gpu);
  return gpu;
}

}  // namespace

std::optional<std::vector<GpuHealth>> read_gpu_health() {
  const Nvml nvml;
  if (!nvml.started()) return std::nullopt;
  std::vector<GpuHealth> gpus;
  int index = 0;
  for (const Device device : nvml.devices()) gpus.push_back(read_gpu(nvml, device, index++));
  return gpus;
}

std::string throttle_text(unsigned long long reasons) {
  struct Bit {
    unsigned long long bit;
    const char* text;
  };
  constexpr std::array<Bit, 4> kBits = {
      {{0x08, "hardware slowdown"}, {0x20, "too hot (software)"}, {0x40, "too hot (hardware)"}, {0x80, "power brake"}}};
  std::string text;
  for (const Bit& each : kBits)
    if ((reasons & each.bit) != 0) text += (text.empty() ? "" : ", ") + std::string(each.text);
  return text;
}

struct XidWatch::Parts {
  Nvml nvml;
  std::vector<Device> devices;
  EventSet events = nullptr;
  std::atomic<bool> ending{false};
  std::thread thread;
};

XidWatch::XidWatch(std::function<void(int, unsigned long long)> on_error) : parts_(std::make_unique<Parts>()) {
  Parts& parts = *parts_;
  if (!parts.nvml.started() || !parts.nvml.call("nvmlEventSetCreate", &parts.events)) return;
  parts.devices = parts.nvml.devices();
  for (const Device device : parts.devices)
    watching_ = parts.nvml.call("nvmlDeviceRegisterEvents", device, kXidEvents, parts.events) || watching_;
  if (!watching_) return;
  parts.thread = std::thread([&parts, tell = std::move(on_error)] {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, nullptr);
    constexpr unsigned kMilliseconds = 500;
    while (!parts.ending) {
      EventData event{};
      // A library without the function would make this loop spin: registration then failed above.
      if (!parts.nvml.call("nvmlEventSetWait_v2", parts.events, &event, kMilliseconds)) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        continue;
      }
      for (std::size_t i = 0; i < parts.devices.size(); ++i)
        if (parts.devices[i] == event.device) tell(static_cast<int>(i), event.data);
    }
  });
}

XidWatch::~XidWatch() {
  parts_->ending = true;
  if (parts_->thread.joinable()) parts_->thread.join();
  if (parts_->events != nullptr) parts_->nvml.call("nvmlEventSetFree", parts_->events);
}

}  // namespace railyard::launch
