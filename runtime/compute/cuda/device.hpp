// CUDA's results turned into errors, and owners of its streams, events and memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <utility>

namespace railyard::cuda {

// Throws RunError with CUDA's own text; `what` says what was tried.
[[noreturn]] void fail(cudaError_t status, const char* what);

inline void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) [[unlikely]]
    fail(status, what);
}

class Stream {
 public:
  // A higher priority is scheduled first when both streams have work.
  explicit Stream(bool high_priority = false) {
    int least = 0, greatest = 0;
    check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "stream priorities");
    check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, high_priority ? greatest : least),
          "create a stream");
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { cudaStreamDestroy(stream_); }
  [[nodiscard]] cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

class Event {
 public:
  explicit Event(bool timing = false) {
    check(cudaEventCreateWithFlags(&event_, timing ? cudaEventDefault : cudaEventDisableTiming), "create an event");
  }
  Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&&) = delete;
  ~Event() {
    if (event_ != nullptr) cudaEventDestroy(event_);
  }
  [[nodiscard]] cudaEvent_t get() const { return event_; }
  void record(cudaStream_t stream) { check(cudaEventRecord(event_, stream), "record an event"); }

 private:
  cudaEvent_t event_ = nullptr;
};

// Makes `later` wait for everything launched on `earlier` so far.
inline void order(cudaStream_t earlier, cudaStream_t later, Event& event) {
  event.record(earlier);
  check(cudaStreamWaitEvent(later, event.get(), 0), "wait for an event");
}

// Device memory of the backend's own, such as workspaces.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  explicit DeviceMemory(std::size_t bytes) : bytes_(bytes) { check(cudaMalloc(&data_, bytes), "allocate a workspace"); }
  DeviceMemory(DeviceMemory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~DeviceMemory() {
    if (data_ != nullptr) cudaFree(data_);
  }
  [[nodiscard]] void* data() const { return data_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace railyard::cuda
