// Ends the process with one line when a call into a library does not come back.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace railyard::launch {

class Watchdog {
 public:
  // After `seconds` prints "railyard: MESSAGE" and ends the process with exit code 1, unless destroyed before.
  Watchdog(double seconds, std::string message);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  ~Watchdog();

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace railyard::launch
