// A driver library with two GPUs for tests of launch/health: GPU 1 is ill in every way that NVML can tell, and reports
// XID 79 as soon as somebody waits for events.
#include <unistd.h>

#include <cstring>

namespace {

constexpr int kSuccess = 0, kNotSupported = 3, kTimeout = 10;
char gpus[2];

bool ill(void* device) { return device == &gpus[1]; }

struct Memory {
  unsigned long long total, free, used;
};
struct Process {
  unsigned pid;
  unsigned long long memory;
  unsigned gpu_instance, compute_instance;
};
struct Event {
  void* device;
  unsigned long long type, data;
  unsigned gpu_instance, compute_instance;
};

}  // namespace

extern "C" {

int nvmlInit_v2() { return kSuccess; }
int nvmlShutdown() { return kSuccess; }
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 2;
  return kSuccess;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = &gpus[index];
  return kSuccess;
}
int nvmlDeviceGetName(void*, char* text, unsigned) {
  std::strcpy(text, "NVIDIA H100 80GB HBM3");
  return kSuccess;
}
int nvmlDeviceGetUUID(void* device, char* text, unsigned) {
  std::strcpy(text, ill(device) ? "GPU-1" : "GPU-0");
  return kSuccess;
}
int nvmlDeviceGetMemoryInfo(void*, Memory* memory) {
  *memory = {80ULL << 30, 79ULL << 30, 1ULL << 30};
  return kSuccess;
}
int nvmlDeviceGetTotalEccErrors(void* device, int type, int counter, unsigned long long* count) {
  if (type != 1 || counter != 0) return kNotSupported;
  *count = ill(device) ? 3 : 0;
  return kSuccess;
}
int nvmlDeviceGetRemappedRows(void* device, unsigned* corrected, unsigned* uncorrected, unsigned* pending,
                              unsigned* failed) {
  *corrected = *uncorrected = 0;
  *pending = *failed = ill(device) ? 1 : 0;
  return kSuccess;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) {
  *reasons = ill(device) ? 0x48 : 0x1;  // 1: idle
  return kSuccess;
}
int nvmlDeviceGetCurrPcieLinkWidth(void* device, unsigned* width) {
  *width = ill(device) ? 8 : 16;
  return kSuccess;
}
int nvmlDeviceGetMaxPcieLinkWidth(void*, unsigned* width) {
  *width = 16;
  return kSuccess;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, Process* processes) {
  *count = ill(device) ? 1 : 0;
  if (ill(device)) processes[0] = {4711, 1ULL << 30, 0, 0};
  return kSuccess;
}
int nvmlDeviceGetNvLinkState(void* device, unsigned link, unsigned* active) {
  if (link >= 18) return kNotSupported;
  *active = ill(device) && link == 5 ? 0 : 1;
  return kSuccess;
}
int nvmlDeviceGetNvLinkErrorCounter(void* device, unsigned link, unsigned counter, unsigned long long* errors) {
  *errors = ill(device) && link == 4 && counter == 1 ? 5000 : 0;
  return kSuccess;
}
int nvmlEventSetCreate(void** set) {
  static char one;
  *set = &one;
  return kSuccess;
}
int nvmlEventSetFree(void*) { return kSuccess; }
int nvmlDeviceRegisterEvents(void*, unsigned long long types, void*) { return types == 8 ? kSuccess : kNotSupported; }
int nvmlEventSetWait_v2(void*, Event* event, unsigned) {
  static bool told = false;
  if (told) {
    usleep(10000);
    return kTimeout;
  }
  told = true;
  *event = {&gpus[1], 8, 79, 0, 0};
  return kSuccess;
}

}  // extern "C"
