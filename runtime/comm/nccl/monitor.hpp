// Watches the operations in flight on a thread of its own: finds errors of NCCL and operations that take too long, ends
// all communicators then, so that nobody waits for ever, and keeps the reason for the thread that trains.
#pragma once

#include <nccl.h>

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/comm/nccl/roll_call.hpp"
#include "runtime/compute/cuda/device.hpp"

namespace railyard::nccl {

// One operation in flight: done when its event has passed.
struct InFlight {
  std::string operation;  // "all_reduce of group tp"
  Line line;
  std::int64_t count;      // the how manieth of its line
  std::vector<int> ranks;  // world ranks that take part
  std::shared_ptr<cuda::Event> done;
};

class Monitor {
 public:
  // `host` is used here only.
  Monitor(Communicator& host, int device, double timeout);
  ~Monitor();
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  void add_communicator(ncclComm_t communicator);
  // The communicator is about to be destroyed.
  void remove_communicator(ncclComm_t communicator);
  std::int64_t come(Line line) { return roll_call_.come(line); }
  void watch(InFlight operation);
  // Throws what the thread has found.
  void check();
  [[nodiscard]] double timeout() const { return timeout_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Queue {
    std::deque<InFlight> operations;
    Clock::time_point since;  // when the first one became the first
  };

  void run(int device);
  void look_at_communicators();
  void look_at_operations();
  void fail(const std::string& reason);

  double timeout_;
  int rank_;
  RollCall roll_call_;
  std::mutex mutex_;
  std::vector<ncclComm_t> communicators_;
  std::map<Line, Queue> queues_;
  std::string error_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace railyard::nccl
