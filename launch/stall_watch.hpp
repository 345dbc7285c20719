// Ends a rank whose file system does not answer: nobody waits for it in a collective when all ranks hang the same way.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "runtime/base/activity.hpp"

namespace railyard::launch {

class StallWatch {
 public:
  // Calls `on_stall` once, on a thread of its own, with the phase when `board` shows the same phase of file access,
  // without waiting for other ranks, for longer than `timeout` seconds of this process's life (not while it is
  // stopped). `period`: seconds between two looks.
  StallWatch(const ActivityBoard& board, double timeout, std::function<void(const std::string& phase)> on_stall,
             double period = 1.0);
  StallWatch(const StallWatch&) = delete;
  StallWatch& operator=(const StallWatch&) = delete;
  ~StallWatch();

 private:
  void run(double timeout, double period);

  const ActivityBoard& board_;
  std::function<void(const std::string&)> on_stall_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace railyard::launch
