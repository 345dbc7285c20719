// Prints the first critical error (XID) that the driver library tells of: "GPU XID"; exit 1 when none comes in 5 s.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>

#include "launch/health/nvml.hpp"

int main() {
  std::atomic<bool> told{false};
  const railyard::launch::XidWatch watch([&](int gpu, unsigned long long xid) {
    std::printf("%d %llu\n", gpu, xid);
    told = true;
  });
  for (int i = 0; i < 500 && !told; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return told ? 0 : 1;
}
